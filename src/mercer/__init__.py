"""mercer: Kernel PCA, exact and certified."""
