"""What a fit will do, decided from a few numbers before an array is touched."""
