"""Figures of merit: what a metric is, the known ones, and the ranking that all are computed from."""
