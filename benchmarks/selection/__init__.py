"""Does `select` find a good width without labels? Two judges, a grid of widths, a dozen data sets."""
