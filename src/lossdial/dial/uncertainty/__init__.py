"""Intervals: the bootstrap, cross-fitting halves, and simultaneous widths."""
