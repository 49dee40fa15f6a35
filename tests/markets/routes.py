"""A model for each route of a fit, which engines must not change."""

from mercer import KernelPCA
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.kernels import RBF

ROUTES = {
    "exact": KernelPCA(3, kernel=RBF(0.3), solver="krylov"),
    "lapack": KernelPCA(3, kernel="laplacian", solver="lapack"),
    "share": KernelPCA(0.8, kernel=RBF(0.1), solver="krylov"),
    "median": KernelPCA(3, kernel="rbf", solver="krylov"),
    "rpcholesky": KernelPCA(3, kernel=RBF(0.3), approximation=RPCholesky(40)),
    "nystrom": KernelPCA(3, kernel="matern", approximation=Nystrom(12, sampling="k-means++")),
    "fourier": KernelPCA(3, kernel=RBF(0.3), approximation=RandomFourier(60)),
    "refined": KernelPCA(3, kernel=RBF(0.3), approximation=Nystrom(40, refine=2)),
    "map": KernelPCA(3, kernel="poly(degree=2)"),
    "linear": KernelPCA(2, kernel="linear"),
}
