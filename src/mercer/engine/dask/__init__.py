"""A cluster of Dask: workers that share rows and tiles, each with its own engine. Needs ``mercer[dask]``."""

from mercer.engine.dask.engine import DaskEngine

__all__ = ["DaskEngine"]
