"""Baseline files: schema, key, store, refresh."""
