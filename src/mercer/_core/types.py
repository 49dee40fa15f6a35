"""Array types, named once."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]
Indices: TypeAlias = NDArray[np.intp]
Flags: TypeAlias = NDArray[np.bool_]
# Rows are points. Dense arrays and CSR matrices both slice by rows, which is all the tile loop asks.
Rows: TypeAlias = Any
