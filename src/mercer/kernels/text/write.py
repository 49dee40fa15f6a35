"""From a kernel to a text that reads back as the same kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._core.errors import KernelError, KernelSyntaxError
from mercer.kernels.algebra import Constant, Power, Product, Scale, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.custom import Custom, GaussianProcess
from mercer.kernels.derived import Normalised, OnColumns
from mercer.kernels.names import as_kernel
from mercer.kernels.text.build import parse_kernel


def kernel_text(kernel: Any) -> str:
    """The kernel as an expression that `parse_kernel` reads back, parameter by parameter.

    Parameters
    ----------
    kernel : Kernel or str

    Returns
    -------
    str
        As the kernel prints itself, but for brackets and constants, which stand where reading needs them.

    Raises
    ------
    KernelError
        The kernel, or one inside it, is a Python function or a class that has no name here.

    Examples
    --------
    >>> from mercer.kernels import RBF, Linear
    >>> kernel_text(RBF(gamma=0.5) + (Linear() + 1.0))
    'RBF(gamma=0.5) + (Linear() + 1.0)'
    >>> kernel_text(lambda x, y: x @ y)
    Traceback (most recent call last):
        ...
    mercer._core.errors.KernelError: Custom(<lambda>) is a Python function, which has no text. ...
    """
    kernel = as_kernel(kernel)
    try:
        kernel.check_parameters()
        text = _written(kernel)
        again = parse_kernel(text)
    except (KernelSyntaxError, RecursionError) as error:
        why = str(error).partition("\n")[0]
        msg = f"This kernel has no text that reads back: {why}"
        raise KernelError(msg) from error
    if not _same(kernel, again):  # better no text than one of another kernel
        msg = f"{kernel!r} has no text that reads back: {text!r} is another kernel."
        raise KernelError(msg)
    return text


def _call(kernel: Kernel) -> str:
    """The class, by its name, and the parameters that it shows."""
    if isinstance(kernel, (Custom, GaussianProcess)):
        what = "a Python function" if isinstance(kernel, Custom) else "an object of scikit-learn"
        msg = (
            f"{kernel!r} is {what}, which has no text. Use kernels of `mercer.kernels` and their sums, "
            "products and powers where a kernel has to be written down."
        )
        raise KernelError(msg)
    shown = ", ".join(f"{name}={_value(v)}" for name, v in kernel._shown_params().items())
    return f"{type(kernel).__name__}({shown})"


def _written(kernel: Kernel) -> str:
    """The kernel as an expression; whether it reads back is for the caller to see."""
    return _ALGEBRA.get(type(kernel), _call)(kernel)


def _sum(kernel: Sum) -> str:
    """The sum; a - b where the second part is -1.0 times b, which is what a - b reads as."""
    left, right, sign = kernel.left, kernel.right, "+"
    if isinstance(right, Scale) and _value(right.factor) == "-1.0":
        right, sign = right.kernel, "-"
    if isinstance(left, Constant) and isinstance(right, Constant):
        return f"{_closed(left)} {sign} {_closed(right)}"  # 1 + 2 would read as 3
    # Signs of one rank read from left to right: a + (b + c) needs its bracket.
    after = f"({_written(right)})" if isinstance(right, Sum) else _written(right)
    return f"{_written(left)} {sign} {after}"


def _closed(kernel: Kernel) -> str:
    """As an operand that nothing around it can tear apart; a constant by its name, so that it stays one."""
    if isinstance(kernel, Constant):
        return f"Constant({_value(kernel.value)})"
    loose = isinstance(kernel, (Sum, Product, Scale, Power))
    return f"({_written(kernel)})" if loose else _written(kernel)


# A subclass has mathematics of its own, so only the classes themselves are written with operators.
_ALGEBRA: dict[type[Kernel], Any] = {
    Constant: lambda c: _value(c.value),
    Sum: _sum,
    Product: lambda k: f"{_closed(k.left)} * {_closed(k.right)}",
    Scale: lambda k: f"{_value(k.factor)} * {_closed(k.kernel)}",
    Power: lambda k: f"{_closed(k.kernel)} ** {_value(k.exponent)}",
    OnColumns: lambda k: f"{_closed(k.kernel)}.on({_value(k.columns)})",
    Normalised: lambda k: f"{_closed(k.kernel)}.normalised()",
}


def _value(value: Any) -> str:
    """A parameter, as Python would write it."""
    if isinstance(value, (list, tuple, range, np.ndarray)):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value.item() if isinstance(value, np.generic) else value)


def _same(a: Any, b: Any) -> bool:
    """Whether two kernels are of one class and have the same parameters, all the way down."""
    if isinstance(a, Kernel):
        parts = ((getattr(a, name), getattr(b, name, None)) for name in a._param_names())
        return type(a) is type(b) and all(_same(*part) for part in parts)
    return _value(a) == _value(b)
