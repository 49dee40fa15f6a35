"""Mutated inputs against every door that takes bytes from strangers: ``python -m fuzz --help``."""
