"""Choosing λ and a threshold: objectives, tuning, the ROC envelope, costs, and whether a dial is worth it."""
