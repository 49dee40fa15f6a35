"""Files: the model file, and tables of rows in and out. Knows nothing of scikit-learn."""
