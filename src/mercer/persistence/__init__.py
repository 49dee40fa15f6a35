"""Fitted models in files, and what a fitted model is: the card, the file, its schema and its codec."""
