"""Files as they come: tables (CSV, JSON lines, Parquet, NPZ) and images."""
