"""The types that skops needs to be told of to load mercer's models."""

from mercer.io.known_types import table

__all__ = ["SKOPS_TRUSTED"]

SKOPS_TRUSTED = sorted(
    known.home.replace(":", ".") for known in table().values() if known.home.startswith("mercer")
)
