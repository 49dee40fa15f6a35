"""What is done to the rows of a table before a model sees them: learned at the fit, applied ever after."""
