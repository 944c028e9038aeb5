"""Train one classifier over a distribution of losses; dial in the trade-off afterwards."""
