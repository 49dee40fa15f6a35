"""Exceptions and warnings. Each says what was given, what is needed and what to do."""

import difflib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, Self

from mercer._core.wording import Message

LONGEST = 60  # letters of a text that a message quotes
# What other libraries call the things that have another name here.
ELSEWHERE = {
    "arpack": "lanczos", "randomized": "krylov", "eigh": "lapack", "tanh": "sigmoid", "metric": "kernel",
    "seed": "random_state", "labels": "y", "cv": "folds", "sep": "delimiter", "index_col": "id",
    "usecols": "columns", "skiprows": "skip_rows", "sheet": "array", "sheet_name": "array",
    "dataset": "array", "key": "array", "tolerance": "tol",
}  # fmt: skip


@dataclass(frozen=True)
class Remedy:
    """A parameter to set, and the value to set it to."""

    parameter: str
    value: Any


class MercerError(Exception):
    """Base of every error that mercer raises on purpose.

    Attributes
    ----------
    parameter : str or None
        The parameter that the error is about, where it is about one; rows are ``"X"``.
    value : object
        What it was: of rows the first wrong value, their shape or themselves.
    remedy : str
        What to do, the end of the message.
    """

    parameter: str | None = None
    value: Any = None
    remedy: str = ""

    @classmethod
    def about(
        cls,
        parameter: str,
        value: Any,
        *,
        must_be: str,
        got: str = "",
        of: str = "",
        remedy: str = "",
    ) -> Self:
        """An error about one parameter: "tol must be …; got 2. Use …". `got` are words for the value.

        Examples
        --------
        >>> error = ParameterError.about("tol", 2, must_be="a number > 0", of="BlockKrylov")
        >>> str(error), error.parameter, error.value
        ('BlockKrylov: tol must be a number > 0; got 2.', 'tol', 2)
        """
        whose = f"{of}: " if of else ""
        # One of several in a text such as "a and b" is not a name to be looked up.
        named = parameter.isidentifier() and not of
        name = f"{{{parameter}!s}}" if named else "{parameter_}"
        template = f"{{whose}}{name} must be {{must_be}}; got {{got}}.{{remedy}}"
        parts = {"whose": whose, "must_be": must_be, "got": got or quoted_value(value)}
        parts |= {} if named else {"parameter_": parameter}
        spaced = Message(" {remedy}", remedy=remedy) if remedy else ""
        error = cls(Message(template, **parts, remedy=spaced))
        error.parameter, error.value, error.remedy = parameter, value, remedy
        return error

    @classmethod
    def saying(
        cls, sentence: str, remedy: str = "", *, parameter: str | None = None, value: Any = None
    ) -> Self:
        """An error of two parts: what is wrong, and what to do.

        Parameters stand in backticks, `impute='mean'`, so that a command line can put its options there.
        """
        error = cls(f"{sentence} {remedy}".rstrip())
        error.parameter, error.value, error.remedy = parameter, value, remedy
        return error


class InputError(MercerError, ValueError):
    """An argument or a data set cannot be used as it is.

    The message names the value and its place; its last sentence says what to pass instead.
    """


class ParameterError(InputError):
    """A parameter has an impossible value; the data have no part in it, or only by their size.

    Set ``error.parameter`` to what the message says it must be.
    """


class UnknownParameterError(InputError, TypeError):
    """An argument that the signature does not have; the message has the nearest, or where the knob lives.

    Write the name that the message gives, or set it on the kernel, solver or pre-image that has it.
    """


class KernelError(InputError):
    """A kernel is misused, or a kernel function returned what is not a kernel value.

    `mercer.check_kernel` shows what a function returns and whether that is a kernel.
    """


class KernelSyntaxError(KernelError):
    """A text is not a kernel expression; the message has a caret under the place.

    Write it as in ``"rbf(gamma=0.5) + 0.1 * linear"``, or pass an object of `mercer.kernels`.
    """


class DataError(InputError):
    """A file of data can't be read, or holds what can't be used; the message says where.

    Correct the line and the column that it names, or read the file with the option that it suggests.
    """


class ModelFileError(InputError):
    """A model file is damaged, foreign or too new, or a model can't be kept in one.

    Copy the file again, upgrade mercer, or fit and save again; of a model, replace the part that is named.
    """


class ZeroVarianceError(InputError):
    """All rows are one point in feature space: there is no component to find.

    Look for a table of equal rows, or a kernel so wide that it is constant; pass rows that differ.
    """


class NoFiniteMapError(KernelError):
    """The feature space of this kernel has infinite (or unknown) dimension.

    Use a polynomial kernel, or `mercer.approximations.RandomFourier` for an approximate map.
    """


class MemoryBudgetError(MercerError, MemoryError):
    """The memory budget cannot hold what the requested route needs.

    Raise ``memory``, or name an ``approximation``; ``plan(X)`` says how many bytes a fit needs.
    """


def refuse(parameter: str, value: Any, must_be: str, got: str = "", remedy: str = "") -> NoReturn:
    """Raise an `InputError` about an argument: "X must be rows; got RBF(). Check the order …"."""
    raise InputError.about(parameter, value, must_be=must_be, got=got, remedy=remedy) from None


def refuse_data(
    sentence: str, remedy: str = "", *, parameter: str | None = None, value: Any = None
) -> NoReturn:
    """Raise a `DataError`: what is wrong with a file, and what to do."""
    raise DataError.saying(sentence, remedy, parameter=parameter, value=value) from None


class StoppedError(MercerError):
    """An observer asked to stop before there was a result.

    Run it again and let it finish; with a ``checkpoint`` it resumes where it stopped.
    """


class MercerWarning(UserWarning):
    """Base of every warning that mercer gives on purpose.

    Attributes
    ----------
    code : str
        Which warning it is, the same in every version: the name of the class, ``"indefinite-kernel"``,
        unless it gives several.
    numbers : dict
        The figures of the message, by name.
    remedy : Remedy or None
        What to set, and to which value.
    """

    def __init__(
        self,
        message: str = "",
        *,
        code: str = "",
        numbers: dict[str, Any] | None = None,
        remedy: Remedy | None = None,
    ) -> None:
        super().__init__(message)
        words = re.findall("[A-Z][a-z]+", type(self).__name__.removesuffix("Warning"))
        self.code = code or "-".join(words).lower()
        self.numbers, self.remedy = numbers or {}, remedy


class IndefiniteKernelWarning(MercerWarning):
    """The kernel matrix has a clearly negative eigenvalue: there is no feature space behind it.

    Choose other parameters or another kernel; `mercer.check_kernel` shows which rows disagree.
    """


class UnconvergedWarning(MercerWarning):
    """The solver stopped before its tolerance was met; the residuals say by how much.

    Raise ``max_products`` of the solver, or use the components as far as their residuals allow.
    """


class FlatSpectrumWarning(MercerWarning):
    """All eigenvalues are alike, so ranking components by variance says nothing.

    The kernel is usually too narrow: lower ``gamma``, or leave it at "median".
    """


class RankWarning(MercerWarning):
    """Fewer components exist than were asked for.

    Ask for as many as the message names, or use those that there are.
    """


class ApproximationWarning(MercerWarning):
    """An approximation leaves out more than was asked for.

    Raise its rank, or fit without it.
    """


class PreimageWarning(MercerWarning):
    """Some pre-images are not to be relied on.

    Widen the kernel, keep more components, or try another method of `mercer.preimage`.
    """


class DetectorWarning(MercerWarning):
    """A detector was fitted to rows that it can't monitor as they are.

    Look at the columns and rows that the message names; leave them out, or fit to more rows.
    """


class SelectionWarning(MercerWarning):
    """A choice was made on less than was asked for, or between candidates with a defect.

    Give more rows, or fewer and other candidates.
    """


class ReadingWarning(MercerWarning):
    """How a file is written was guessed, or a part of the rows was read in another way than it stands there.

    Say how it is written, ``mercer.open_table(path, delimiter=";")``, or correct what the message names.
    """


class RoundingWarning(MercerWarning):
    """Numbers were rounded to float64, which does not hold them exactly.

    Leave out a column of identifiers; subtract an offset from large numbers whose differences matter.
    """


class LongFitWarning(MercerWarning):
    """An exact fit is expected to take long; an approximation would not.

    Wait, or name an ``approximation``.
    """


class EngineWarning(MercerWarning):
    """A device does less than was planned, and a slower way takes its place.

    Results are the same. Free memory on the device, or mend what the message quotes, to have the speed back.
    """


class GraphWarning(MercerWarning):
    """An ONNX graph differs from its model by more than rounding explains.

    Export with ``dtype="float64"``, keep fewer components, or judge by T² where Q lies below rounding.
    """


class CheckpointWarning(MercerWarning):
    """A checkpoint was asked for on a route that has nothing to resume.

    Leave ``checkpoint`` out.
    """


def users_level() -> int:
    """How many frames up the first one is that belongs to none of mercer, scikit-learn and joblib."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in ("mercer", "sklearn", "joblib"):
            break
        frame, level = frame.f_back, level + 1
    return level


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: the nearest known one, and all of them.

    >>> nearest("rfb", ["linear", "rbf"])
    "Did you mean 'rbf'? Known names: 'linear', 'rbf'."
    """
    names = sorted(known)
    return f"{close_to(name, names)} Known names: {', '.join(map(repr, names))}.".lstrip()


def close_to(name: str, known: Iterable[str]) -> str:
    """The first half of `nearest`, empty where no name is near."""
    if (here := ELSEWHERE.get(name.lower())) in (known := list(known)):
        return f"Did you mean {here!r}?"
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return f"Did you mean {close[0]!r}?" if close else ""


def installing(extra: str) -> str:
    """The command that installs what an optional part of mercer needs, as it is written everywhere.

    >>> installing("plot")
    'pip install "mercer[plot]"'
    """
    return f'pip install "mercer[{extra}]"'


def many(n: int, noun: str) -> str:
    """A number of things, with the noun in the singular for one.

    >>> many(1, "such value"), many(2, "row")
    ('1 such value', '2 rows')
    """
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def quoted_value(value: Any) -> str:
    """The value as one would write it, where that is short; else what kind of thing it is.

    >>> quoted_value("rfb"), quoted_value(list(range(100)))
    ("'rfb'", 'a list')
    """
    text = repr(value)
    if len(text) <= LONGEST and "\n" not in text:
        return text
    return quoted(value) if isinstance(value, str) else kind_of(value)


def kind_of(value: Any) -> str:
    """What kind of thing a value is, with its article.

    >>> kind_of([]), kind_of(1), kind_of(None)
    ('a list', 'an int', 'None')
    """
    if value is None:
        return "None"
    return with_article(type(value).__name__)


def with_article(name: str) -> str:
    """What something is called, with its article.

    >>> with_article("SVC"), with_article("ndarray"), with_article("awkward Array")
    ('an SVC', 'an ndarray', 'an awkward Array')
    """
    spelt = name.isupper() and name[0] in "FHLMNRSX"  # an SVC, by how its letters are said
    vowel = name[0] in "aeioAEIO" or (name.startswith("nd") and name.islower())  # an ndarray
    return f"{'an' if spelt or vowel else 'a'} {name}"


def quoted(text: str) -> str:
    """A text in quotes, the beginning of a long one: files may hold anything, and a message is one line.

    >>> quoted("x"), quoted(100 * "y")
    ("'x'", "'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy…'")
    """
    return repr(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")
