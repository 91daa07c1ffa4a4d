"""Window formulas: group confidence, C_path and instability, for whole paths, growing paths and batches."""
