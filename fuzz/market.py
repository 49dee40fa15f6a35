"""All doors."""

from __future__ import annotations

from fuzz.containers import CONTAINERS
from fuzz.doors import TEXT_AND_MODELS
from fuzz.hdf5 import HDF5

DOORS = (*TEXT_AND_MODELS, *CONTAINERS, *HDF5)
