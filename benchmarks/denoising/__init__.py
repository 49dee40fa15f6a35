"""Denoising MNIST: what kernel PCA and each way back from it make of noisy digits, beside linear PCA.

The models see clean digits only (Mika et al. 1999).
"""
