"""Replays recorded nightly series through gates, ours and the published ones."""
