"""Maps from scores to probabilities, and how they are fitted."""
