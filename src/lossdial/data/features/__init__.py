"""A pretrained network's features, computed once and kept."""
