"""Does `select` find a good width without labels? One judge, a fine grid, five data sets."""
