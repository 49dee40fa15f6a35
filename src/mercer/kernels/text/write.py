"""From a kernel to a text that reads back as the same kernel."""

from __future__ import annotations

from typing import Any

from mercer._core.errors import KernelError, KernelSyntaxError
from mercer.engine.formula import Opaque
from mercer.kernels.base import Kernel
from mercer.kernels.custom import Custom, GaussianProcess
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
        As the kernel prints itself.

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
        _refuse_functions(kernel)
        text = repr(kernel)
        again = parse_kernel(text)
    except (KernelSyntaxError, RecursionError) as error:
        why = str(error).partition("\n")[0]
        msg = f"This kernel has no text that reads back: {why}"
        raise KernelError(msg) from error
    if kernel != again:  # better no text than one of another kernel
        msg = f"{kernel!r} has no text that reads back: {text!r} is another kernel."
        raise KernelError(msg)
    return text


def _refuse_functions(kernel: Kernel) -> None:
    leaves = (node.kernel for node in kernel.shape().walk() if isinstance(node, Opaque))
    for part in leaves:
        if isinstance(part, (Custom, GaussianProcess)):
            what = "a Python function" if isinstance(part, Custom) else "an object of scikit-learn"
            msg = (
                f"{part!r} is {what}, which has no text. Use kernels of `mercer.kernels` and their sums, "
                "products and powers where a kernel has to be written down."
            )
            raise KernelError(msg)
