"""Faults that are put into a server on purpose, to prove that the gate sees them."""
