"""mercer against scikit-learn: time, peak memory and accuracy, measured in one run."""
