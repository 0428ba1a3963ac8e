"""Proof that the gate sees: faults are injected and red is demanded; nothing is injected, and silence."""
