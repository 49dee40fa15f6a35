"""An estimator is a form to fill in: what may be written into it, by the constructor or `set_params`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from mercer._core.errors import InputError, UnknownParameterError
from mercer._core.public import unknown_words
from mercer.estimators.preimages import named_approximation, named_preimage
from mercer.kernels import as_kernel
from mercer.solvers.names import named_solver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EXAMPLES = {
    "kernel": "kernel='rbf'",
    "solver": "solver='krylov'",
    "approximation": "approximation='rpcholesky'",
    "preimage": "preimage='ridge'",
    "model": "model=KernelPCA()",
}
MAKERS: Mapping[str, Callable[[Any], Any]] = {
    "kernel": as_kernel,
    "solver": named_solver,
    "approximation": named_approximation,
    "preimage": named_preimage,
}
# Texts that stand for a choice made at the fit, not for an object.
OPEN = ("auto",)


class Form:
    """Parts by name, and names that don't exist told in words; to be mixed into a `BaseEstimator`."""

    _parts: ClassVar[Mapping[str, Callable[[Any], Any]]] = MAKERS

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the parts as ``kernel__gamma`` or ``solver__tol``.

        A part that was given by name becomes its object: with ``kernel__gamma=2`` the kernel ``"rbf"`` is
        ``RBF(gamma=2)`` from then on. The order of the parameters does not matter.

        Parameters
        ----------
        **params : parameters by name

        Returns
        -------
        self
        """
        own: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        plain = {name: value for name, value in params.items() if "__" not in name}
        if not {name.partition("__")[0] for name in params} <= own.keys():
            given = {name.partition("__")[0]: value for name, value in params.items()}
            owner = type(self).__name__
            raise UnknownParameterError(
                unknown_words(owner, list(own), {**own, **given}, type(self))
            )
        values, parts = {**own, **plain}, {}
        for name, value in params.items():
            part, _, knob = name.partition("__")
            if knob and (values[part] is None or isinstance(values[part], str)):
                if part not in parts:
                    parts[part] = self._part(part, values[part], name)
                parts[part].set_params(
                    **{knob: value}
                )  # before anything of the estimator has changed
            elif knob and not hasattr(values[part], "set_params"):
                self._refuse_knob(part, values[part], name)
        rest = {name: params[name] for name in params if name.partition("__")[0] not in parts}
        super().set_params(**rest, **parts)  # type: ignore[misc]
        return self

    def _part(self, part: str, value: str | None, name: str) -> Any:
        """The object behind the name of a part, whose knobs are to be set."""
        made = None
        if value is not None and value not in OPEN and part in self._parts:
            made = self._parts[part](value)
        if made is None or not made.get_params():
            self._refuse_knob(part, value, name)
        return made

    def _refuse_knob(self, part: str, value: Any, name: str) -> NoReturn:
        """Raise: what was given as a part has no knobs."""
        opened = isinstance(value, str) and value in OPEN
        why = "is chosen at the fit and has no parameters" if opened else "has no parameters"
        given = f"a {type(value).__name__} as {part}" if callable(value) else f"{part}={value!r}"
        msg = f"{name} can't be set: {given} {why}."
        if part in EXAMPLES:
            msg += f" Set the part by name as well, such as {EXAMPLES[part]}, or pass an object."
        raise InputError(msg)
