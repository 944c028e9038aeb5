"""Files as they come: tables (CSV, Parquet, NPZ) and images."""
