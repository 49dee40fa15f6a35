"""Statistics of new rows against a fit, their limits, and what each variable adds to them."""
