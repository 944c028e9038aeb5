"""A table of numbers, text and gaps to a matrix."""
