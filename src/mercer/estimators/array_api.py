"""Arrays out as they are handed in, where scikit-learn has it: `config_context(array_api_dispatch=True)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import get_config

from mercer.data.tensors import is_tensor

if TYPE_CHECKING:
    from mercer._core.types import Array


def like(found: Array, X: Any, estimator: Any = None) -> Any:
    """What was found in the library and on the device of X; NumPy's array where that was not asked for.

    An estimator whose `set_output` asks for a frame gets NumPy's array, of which scikit-learn makes one.
    """
    config = get_config()
    if not config["array_api_dispatch"] or not is_tensor(X):
        return found
    wanted = getattr(estimator, "_sklearn_output_config", {}).get("transform")
    if (wanted or config["transform_output"]) != "default":
        return found
    from sklearn.utils._array_api import get_namespace_and_device

    xp, _, device = get_namespace_and_device(X)
    if str(device).startswith("mps") and found.dtype == np.float64:  # which Metal has not
        found = found.astype(np.float32)
    return xp.asarray(np.ascontiguousarray(found), device=device)
