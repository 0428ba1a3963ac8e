"""Profiler traces: reading, classifying, breaking down."""
