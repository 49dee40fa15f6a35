"""The types that skops needs to be told of to load mercer's models."""

from mercer.io.known_types import table

__all__ = ["SKOPS_TRUSTED"]

# What mercer's objects are made of, and holds no code: rows in files, written-out columns of a feature map.
PARTS = (
    "mercer.data.files.Stamp",
    "mercer.data.npy.MappedRows",
    "mercer.data.npy.Stored",
    "mercer.kernels.monomials.Step",
    "mercer.kernels.monomials.Symbol",
    "mercer.kernels.monomials.Term",
    "numpy.dtype",
    "scipy.sparse._csr.csr_array",
)

SKOPS_TRUSTED = sorted(
    {
        *PARTS,
        *(
            known.home.replace(":", ".")
            for known in table().values()
            if known.home.startswith("mercer") and known.making != "member"
        ),
    }
)
