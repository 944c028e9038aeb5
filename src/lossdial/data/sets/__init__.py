"""The paper's data sets, and tables, by name."""
