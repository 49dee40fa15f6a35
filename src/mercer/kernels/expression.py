"""Kernels as text, ``rbf(gamma=0.5) + 0.1*linear()``: read safely, and written so that they read back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mercer._core.errors import KernelError, KernelSyntaxError, nearest
from mercer.kernels.algebra import Constant, is_number
from mercer.kernels.base import Kernel
from mercer.kernels.expression_build import Builder, in_words
from mercer.kernels.expression_text import same_kernel, written
from mercer.kernels.expression_tokens import fault
from mercer.kernels.expression_tree import Call, parse
from mercer.kernels.names import KERNELS, as_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["kernel_text", "parse_call", "parse_kernel"]

_DASHED = re.compile(r"\s*[A-Za-z_]\w*(?:-[A-Za-z_]\w*)+")


def parse_kernel(text: str) -> Kernel:
    """The kernel that an expression describes, written as in Python and never evaluated by it.

    Parameters
    ----------
    text : str
        Names of `mercer.kernels.KERNELS` or of kernel classes, in any case, called with numbers, texts,
        None, True, False and lists, by position or by name; ``+ - *`` between kernels and numbers, ``**``
        with a whole number, ``.on([0, 1])`` and ``.normalised()``. A name alone is a call without arguments,
        and numbers may be worked out: ``rbf(gamma=1/8)``.

    Returns
    -------
    Kernel

    Raises
    ------
    KernelSyntaxError
        The message has the text, with a caret under the place.

    Examples
    --------
    >>> parse_kernel("rbf(gamma=0.5) + 0.1*linear()")
    RBF(gamma=0.5) + 0.1 * Linear()
    >>> parse_kernel("poly(2).on([0, 1]).normalised()")
    Polynomial(degree=2, gamma=1.0, coef0=1.0).on([0, 1]).normalised()
    >>> parse_kernel("rbf(gama=0.5)")
    Traceback (most recent call last):
        ...
    mercer._core.errors.KernelSyntaxError: RBF has no parameter 'gama'. Did you mean 'gamma'? Known names:
    'gamma', 'sigma'.
      rbf(gama=0.5)
          ^~~~
    """
    if not isinstance(text, str):
        msg = f"A text such as 'rbf(gamma=0.5)' was needed, but a {type(text).__name__} came."
        raise KernelError(msg)
    node = parse(text)
    builder = Builder(text, {**KERNELS, "constant": Constant}, what="kernel")
    value = builder.value(node)
    if is_number(value):
        return builder.made(lambda: Constant(value), node)
    if not isinstance(value, Kernel):
        msg = (
            f"A kernel was needed, but this is {in_words(value)}. Write one such as rbf(gamma=0.5)."
        )
        raise fault(msg, text, node.start, node.end)
    return value


def parse_call(text: str, known: Mapping[str, type], *, what: str = "name") -> Any:
    """The object that one call describes: a name of `known`, or of its classes, with plain arguments.

    Parameters
    ----------
    text : str
        Such as ``rpcholesky(rank=500)``; ``rpcholesky`` alone is a call without arguments.
    known : mapping of str to class
        What may be called. Case does not matter, nor whether a name has dashes or underscores.
    what : str, default="name"
        What the names are, for messages: "approximation".

    Returns
    -------
    object

    Examples
    --------
    >>> from fractions import Fraction
    >>> parse_call("fraction(3, denominator=4)", {"fraction": Fraction})
    Fraction(3, 4)
    """
    if not text.strip():
        msg = f"The text is empty. {nearest('', known)}"
        raise KernelSyntaxError(msg)
    dashed = _DASHED.match(text)
    if dashed is not None:  # the same length, so that carets stay where they belong
        text = dashed.group().replace("-", "_") + text[dashed.end() :]
    node = parse(text)
    if not isinstance(node, Call):
        msg = f"One {what} with its arguments was needed. {nearest('', known)}"
        raise fault(msg, text, node.start, node.end)
    return Builder(text, known, what=what).value(node)


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
        text = written(kernel)
        again = parse_kernel(text)
    except (KernelSyntaxError, RecursionError) as error:
        why = str(error).partition("\n")[0]
        msg = f"This kernel has no text that reads back: {why}"
        raise KernelError(msg) from error
    if not same_kernel(kernel, again):  # better no text than one of another kernel
        msg = f"{kernel!r} has no text that reads back: {text!r} is another kernel."
        raise KernelError(msg)
    return text
