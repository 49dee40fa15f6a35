"""What lies past memory: exact fits without the kernel matrix, and approximations, measured in one run."""
