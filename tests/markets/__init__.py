"""Named cases: kernels, data sets, spectra and solvers. A law is tested over all of them."""
