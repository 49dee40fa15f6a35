"""One HTML file that shows a model and its data, and opens anywhere."""
