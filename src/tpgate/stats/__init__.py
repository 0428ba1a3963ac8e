"""Statistics without I/O: robust comparison, power, families, drift."""
