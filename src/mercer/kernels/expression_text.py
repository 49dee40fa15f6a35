"""From a kernel to a text that reads back as the same kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._core.errors import KernelError
from mercer.kernels.algebra import Constant, Power, Product, Scale, Sum, is_number
from mercer.kernels.base import Kernel
from mercer.kernels.custom import Custom, GaussianProcess
from mercer.kernels.derived import Normalised, OnColumns
from mercer.kernels.names import KERNELS

# A subclass has mathematics of its own, so only the classes themselves are known.
_NAMED = set(KERNELS.values())


def written(kernel: Kernel) -> str:
    """The kernel as an expression. Whether it reads back is for the caller to see."""
    if isinstance(kernel, (Custom, GaussianProcess)):
        what = "a Python function" if isinstance(kernel, Custom) else "an object of scikit-learn"
        msg = (
            f"{kernel!r} is {what}, which has no text. Use kernels of `mercer.kernels` and their sums, "
            "products and powers where a kernel has to be written down."
        )
        raise KernelError(msg)
    kind = type(kernel)
    if kind in _NAMED:
        shown = ", ".join(f"{k}={_value(v)}" for k, v in _parameters(kernel).items())
        return f"{kind.__name__}({shown})"
    if kind in _WRITERS:
        return _WRITERS[kind](kernel)
    msg = f"{kind.__name__} is no class of `mercer.kernels`, so its objects have no text."
    raise KernelError(msg)


def _parameters(kernel: Kernel) -> dict[str, Any]:
    """Those that differ from None: a None that is no default is written too."""
    defaults = type(kernel)().get_params(deep=False)
    params = kernel.get_params(deep=False)
    if params.get("sigma") is not None:  # RBF has a width by one name or by the other
        return {"sigma": params["sigma"]}
    return {k: v for k, v in params.items() if v is not None or defaults[k] is not None}


# ── algebra ─────────────────────────────────────────────────────────────────
def _sum(kernel: Sum) -> str:
    """The sum; a - b where the second part is -1.0 times b, which is what a - b reads as."""
    left, right, sign = kernel.left, kernel.right, "+"
    if _is_minus(right):
        right, sign = right.children[0], "-"
    if isinstance(left, Constant) and isinstance(right, Constant):
        return f"{_closed(left)} {sign} {_closed(right)}"  # 1 + 2 would read as 3
    # Signs of one rank read from left to right: a + (b + c) needs its bracket.
    after = f"({written(right)})" if isinstance(right, Sum) else written(right)
    return f"{written(left)} {sign} {after}"


def _product(kernel: Product) -> str:
    return f"{_closed(kernel.left)} * {_closed(kernel.right)}"


def _scale(kernel: Scale) -> str:
    if _is_minus(kernel):
        return f"-{_closed(kernel.kernel)}"
    return f"{_value(kernel.factor)} * {_closed(kernel.kernel)}"


def _power(kernel: Power) -> str:
    return f"{_closed(kernel.kernel)} ** {_value(kernel.exponent)}"


def _on_columns(kernel: OnColumns) -> str:
    columns = kernel.columns
    return f"{_closed(kernel.kernel)}.on({_value(list(columns))})"


def _normalised(kernel: Normalised) -> str:
    return f"{_closed(kernel.kernel)}.normalised()"


def _constant(kernel: Constant) -> str:
    return _value(kernel.value)


def _is_minus(kernel: Kernel) -> bool:
    return isinstance(kernel, Scale) and bool(kernel.factor == -1.0)


def _closed(kernel: Kernel) -> str:
    """As an operand that nothing around it can tear apart; a constant by its name, so that it stays one."""
    if isinstance(kernel, Constant):
        return f"Constant({_value(kernel.value)})"
    loose = isinstance(kernel, (Sum, Product, Scale, Power))
    return f"({written(kernel)})" if loose else written(kernel)


_WRITERS: dict[type[Kernel], Any] = {
    Constant: _constant,
    Normalised: _normalised,
    OnColumns: _on_columns,
    Power: _power,
    Product: _product,
    Scale: _scale,
    Sum: _sum,
}


def _value(value: Any) -> str:
    """A parameter, as Python would write it."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, np.generic):
        return repr(value.item())
    if is_number(value) and not isinstance(value, (int, float)):
        return repr(float(value))  # a fraction: kernels take it as a float themselves
    return repr(value)


# ── sameness ────────────────────────────────────────────────────────────────
def same_kernel(a: Any, b: Any) -> bool:
    """Whether two kernels are of one class and have the same parameters, all the way down."""
    if isinstance(a, Kernel) or isinstance(b, Kernel):
        if type(a) is not type(b):
            return False
        own, other = a.get_params(deep=False), b.get_params(deep=False)
        return all(same_kernel(own[name], other[name]) for name in own)
    if is_number(a) and is_number(b):
        x, y = float(a), float(b)
        return x == y or (math.isnan(x) and math.isnan(y))
    if isinstance(a, (list, tuple, range, np.ndarray)):
        return len(a) == len(b) and all(map(same_kernel, a, b))
    return bool(a == b)
