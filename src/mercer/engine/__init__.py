"""Where arithmetic happens: tiles, threads and the pairwise products below every kernel."""
