"""Kernel PCA of rows that come in batches, each looked at once."""
