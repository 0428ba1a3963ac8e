"""The machine: GPUs, links, identity, telemetry, lease."""
