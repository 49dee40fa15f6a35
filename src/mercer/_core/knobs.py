"""Parameters by name, as scikit-learn's searches reach them: for dataclasses whose fields are knobs."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

from mercer._core.errors import InputError, nearest


def meant(name: str, params: dict[str, Any]) -> str:
    """What was meant by a parameter that a kernel has not: one of a kernel inside, or a near name.

    >>> meant("gamma", {"left": 1, "left__gamma": 2})
    'A kernel inside has it: write left__gamma (of an estimator: kernel__left__gamma).'
    """
    inside = [key for key in params if key.endswith(f"__{name}")]
    if inside:
        told = " or ".join(inside)
        return f"A kernel inside has it: write {told} (of an estimator: kernel__{inside[0]})."
    known = [key for key in params if "__" not in key]
    return nearest(name, known) if known else "It has none."


class Knobs:
    """`get_params` and `set_params` over the fields of a dataclass."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The knobs by name."""
        del deep
        return {knob.name: getattr(self, knob.name) for knob in fields(self)}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Self:
        """Turn knobs by name, as GridSearchCV does with ``solver__tol``."""
        for name, value in params.items():
            if name not in self.get_params():
                known = nearest(name, self.get_params())
                msg = f"{type(self).__name__} has no parameter {name!r}. {known}"
                raise InputError(msg)
            setattr(self, name, value)
        return self
