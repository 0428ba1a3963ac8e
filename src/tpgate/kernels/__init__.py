"""Triton kernels under test, their timing, collectives and rooflines."""
