"""Blocks of long vectors on a device, which solvers treat as arrays of NumPy.

A Krylov basis of a million rows is two gigabytes: on the host, orthogonalising it and looking at residuals
took as long as the products with K. Solvers are written once, for NumPy, so such a block answers to NumPy's
protocols for what they do with long arrays. What is small (sums over rows, norms, inner products) comes back
as arrays of the host; what is long does only by `np.asarray`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from mercer._core.types import Array, Indices
from mercer.engine.thin import RemoteVectors
from mercer.engine.torch.place import Place

if TYPE_CHECKING:
    from torch import Tensor


class DeviceVectors(NDArrayOperatorsMixin, RemoteVectors):
    """Columns, one for each vector: (n, k), float64, on a device."""

    __array_priority__ = 100

    def __init__(self, tensor: Tensor, place: Place) -> None:
        self.tensor, self.place = tensor, place

    # ── as an array ─────────────────────────────────────────────────────────
    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def size(self) -> int:
        return int(self.tensor.numel())

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(str(self.tensor.dtype).removeprefix("torch."))

    def __len__(self) -> int:
        return len(self.tensor)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            msg = "Vectors on a device are copied to the host."
            raise ValueError(msg)
        found = np.asarray(self.tensor.cpu().numpy(), dtype=dtype)
        # A processor's own numbers would be the caller's too.
        return found.copy() if copy and self.tensor.device.type == "cpu" else found

    def __getitem__(self, key: Any) -> DeviceVectors:
        return self._own(self.tensor[self._index(key)])

    def __setitem__(self, key: Any, values: Any) -> None:
        self.tensor[self._index(key)] = self._there(values)

    def copy(self) -> DeviceVectors:
        return self._own(self.tensor.clone())

    def astype(self, dtype: Any, *, order: str = "K", copy: bool = True) -> DeviceVectors:
        import torch

        del order  # which products take as it is
        tensor = self.tensor.to(getattr(torch, np.dtype(dtype).name))
        return self.copy() if copy and tensor is self.tensor else self._own(tensor)

    def max(self) -> float:
        return float(self.tensor.max())

    def min(self) -> float:
        return float(self.tensor.min())

    def sum(self, axis: int) -> Array:
        """Sums over rows (0) or columns (1), on the host."""
        return self._here(self.tensor.sum(dim=axis))

    def all(self) -> bool:
        return bool(self.tensor.all())

    # ── thin products: `mercer.engine.thin` leaves them to their left side ──
    def inner(self, other: Any) -> Array:  # (n, v), (n, w) -> (v, w)
        return self._here(self.tensor.T @ self._there(other))

    def times(self, small: Array) -> DeviceVectors:  # (n, v), (v, w) -> (n, w)
        return self._own(self.tensor @ self._there(small))

    def subtract(self, a: DeviceVectors, small: Array) -> None:  # (n, w), (n, v), (v, w)
        self.tensor.addmm_(a.tensor, self._there(small), alpha=-1.0)

    def largest_rows(self, count: int) -> Indices:  # (n, k) -> (count, k)
        return np.asarray(self.tensor.topk(count, dim=0).indices.cpu().numpy())

    # ── NumPy's protocols ───────────────────────────────────────────────────
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        import torch

        if method == "reduce" and ufunc in _REDUCED:
            found = getattr(torch, _REDUCED[ufunc])(inputs[0].tensor, dim=kwargs["axis"])
            return self._here(found if ufunc is np.add else found.values)
        if method == "__call__" and ufunc is np.matmul:  # of numbers, one a row, with the vectors
            left, right = inputs
            if right is not self or np.ndim(left) != 1:
                return NotImplemented
            return self._here(self._there(left).to(self.tensor.dtype) @ self.tensor)
        if method != "__call__" or ufunc not in _UFUNCS or set(kwargs) - {"out"}:
            return NotImplemented
        found = getattr(torch, _UFUNCS[ufunc])(*map(self._there, inputs))
        if kwargs.get("out") is None:
            return self._own(found)
        (out,) = kwargs["out"]
        out.tensor.copy_(found)
        return out

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        del types
        own = _FUNCTIONS.get(function)
        return NotImplemented if own is None else own(self, *args, **kwargs)

    # ── between here and there ──────────────────────────────────────────────
    def _own(self, tensor: Tensor) -> DeviceVectors:
        return DeviceVectors(tensor, self.place)

    def _there(self, values: Any) -> Any:
        """An operand on the device; numbers stay what they are."""
        if isinstance(values, DeviceVectors):
            return values.tensor
        return self.place.tensor(values) if isinstance(values, np.ndarray) else values

    def _index(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        return tuple(self._there(each) for each in parts)

    @staticmethod
    def _here(tensor: Tensor) -> Array:
        return np.asarray(tensor.cpu().numpy())


def like(found: Array, v: Array) -> Array:
    """A product where its vectors are."""
    return np.asarray(found, like=v) if isinstance(v, DeviceVectors) else found


def found_for(v: Array, sums: Tensor) -> Array:
    """A product on the device, where its vectors are and in their precision."""
    if isinstance(v, DeviceVectors):
        return cast("Array", DeviceVectors(sums, v.place).astype(v.dtype, copy=False))
    return sums.cpu().numpy().astype(v.dtype, copy=False)


def _norm(self: DeviceVectors, x: DeviceVectors, axis: int) -> Array:
    import torch

    return self._here(torch.linalg.vector_norm(x.tensor, dim=axis))


def _concatenate(self: DeviceVectors, blocks: Sequence[Any], axis: int) -> DeviceVectors:
    import torch

    return self._own(torch.cat([self._there(each) for each in blocks], dim=axis))


def _empty_like(
    self: DeviceVectors, x: DeviceVectors, shape: tuple[int, int], order: str = "C"
) -> DeviceVectors:
    if order == "F":  # columns lie together
        return self._own(x.tensor.new_empty(shape[::-1]).T)
    return self._own(x.tensor.new_empty(shape))


def _asarray(self: DeviceVectors, values: Any) -> DeviceVectors:
    """What `np.asarray(values, like=self)` gives."""
    return values if isinstance(values, DeviceVectors) else self._own(self._there(values))


def _qr(self: DeviceVectors, x: DeviceVectors) -> tuple[DeviceVectors, Array]:
    import torch

    q, upper = torch.linalg.qr(x.tensor)
    return self._own(q), self._here(upper)


_UFUNCS = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.true_divide: "div",
    np.absolute: "abs",
    np.power: "pow",
    np.isfinite: "isfinite",
}
_REDUCED: dict[Any, str] = {np.add: "sum", np.maximum: "max", np.minimum: "min"}
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.linalg.norm: _norm,
    np.linalg.qr: _qr,
    np.concatenate: _concatenate,
    np.empty_like: _empty_like,
    np.asarray: _asarray,
}
