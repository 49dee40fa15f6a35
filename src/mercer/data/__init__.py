"""Rows, wherever they are: in memory, in files, in frames, in batches. Knows no kernel."""
