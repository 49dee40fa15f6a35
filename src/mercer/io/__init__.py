"""Tables of rows prepared and written. Knows nothing of scikit-learn."""
