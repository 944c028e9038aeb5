"""A table of numbers, dates, text and gaps to a matrix."""
