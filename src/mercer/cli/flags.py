"""Was an option given on the line itself? What a file says for all verbs is no mistake of this call."""

from __future__ import annotations

import click
from click.core import ParameterSource


def flagged(name: str) -> bool:
    """Whether the parameter of the running command was given as a flag."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE
