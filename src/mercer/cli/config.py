"""Options from mercer.toml or pyproject.toml, for flags that were not given. Light to import."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mercer._core.errors import nearest
from mercer.cli.ending import refuse

OWN = "mercer.toml"
SHARED = "pyproject.toml"
LARGEST_BYTES = 2**20  # a file of options is a page


@dataclass(frozen=True)
class Config:
    """Options by verb, as a file has them.

    Keys at the top hold for every verb that has such an option; a table ``[fit]`` holds for `mercer fit`
    alone, and wins.
    """

    source: str
    tables: dict[str, Any]

    def defaults(
        self, command: click.Command, verbs: Iterable[str]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Values for the parameters of a verb, by the names that Click has for them, and their origins."""
        options, verb = keys(command), str(command.name)
        found: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for table, key, value in self._entries(verb, set(verbs)):
            param = options.get(key.replace("_", "-"))
            if param is None or (table is None and isinstance(param.envvar, str)):
                if table is None:  # for another verb, or for none: `refuse_unknown` looks
                    continue  # (an option with one variable of its own means something else elsewhere)
                hint = nearest(key, options)
                refuse(f"{self.source}: [{verb}] has no option {key!r}. {hint}")
            name = str(param.name)
            found[name] = _checked(param, value, f"{self.source}: {key!r}")
            origins[name] = self.source if table is None else f"{self.source} [{table}]"
        return found, origins

    def refuse_unknown(self, command: click.Command, everywhere: Callable[[], set[str]]) -> None:
        """Raise for a key above all tables that is an option of no verb; `everywhere` is costly to ask."""
        own = keys(command)
        strange = [key for key in self.top_keys() if key.replace("_", "-") not in own]
        known = everywhere() if strange else set()
        for key in strange:
            if key.replace("_", "-") not in known:
                refuse(f"{self.source}: no command has an option {key!r}. {nearest(key, known)}")

    def top_keys(self) -> list[str]:
        """Keys that stand above all tables."""
        return [key for key, value in self.tables.items() if not isinstance(value, dict)]

    def _entries(self, verb: str, verbs: set[str]) -> list[tuple[str | None, str, Any]]:
        """(table, key, value), those of the verb's own table last: they win."""
        for key, value in self.tables.items():
            if isinstance(value, dict) and key not in verbs:
                hint = nearest(key, verbs)
                refuse(f"{self.source}: [{key}] is not a command of mercer. {hint}")
        top = [(None, key, self.tables[key]) for key in self.top_keys()]
        own = {} if verb in self.top_keys() else self.tables.get(verb, {})
        return [*top, *((verb, key, value) for key, value in own.items())]


def keys(command: click.Command) -> dict[str, click.Option]:
    """The options of a verb that a file may set, by the names that a user knows."""
    return {
        max(param.opts, key=len).lstrip("-"): param
        for param in command.params
        if isinstance(param, click.Option) and not param.is_eager and param.expose_value
    }


def _checked(param: click.Option, value: Any, what: str) -> Any:
    """A value as Click takes it: TOML has types, and `seed = true` is not a number."""
    if param.is_flag:
        fits, needed = isinstance(value, bool), "true or false"
    elif isinstance(value, list):
        fits = param.multiple or getattr(param.type, "takes_lists", False)
        needed = "one value, not a list"
        fits = fits and all(_is_plain(part) for part in value)
    else:
        fits, needed = _is_plain(value), "a text or a number"
        value = [value] if param.multiple else value
    if not fits:
        refuse(f"{what} must be {needed}; got {value!r}.")
    return value


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def find(given: str | None) -> Config | None:
    """The file that was named, else mercer.toml, else [tool.mercer] of pyproject.toml; in this folder."""
    if given is not None:
        path = Path(given)
        table = _parsed(path, needed=True)
        return Config(given, _tool(table, given) if path.name == SHARED else table)
    if Path(OWN).is_file():
        return Config(OWN, _parsed(Path(OWN), needed=True))
    if Path(SHARED).is_file():
        table = _tool(_parsed(Path(SHARED), needed=False), SHARED)
        return Config(f"{SHARED} [tool.mercer]", table) if table else None
    return None


def _tool(table: dict[str, Any], source: str) -> dict[str, Any]:
    """The part of a pyproject.toml that is ours."""
    tools = table.get("tool", {})
    own = tools.get("mercer", {}) if isinstance(tools, dict) else {}
    if not isinstance(own, dict):
        refuse(f"{source}: [tool.mercer] must be a table. Write [tool.mercer].")
    return own


def _parsed(path: Path, *, needed: bool) -> dict[str, Any]:
    import tomllib

    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_BYTES + 1)
        if len(text) > LARGEST_BYTES:
            refuse(f"{path}: a file of options has at most {LARGEST_BYTES} bytes.")
        return tomllib.loads(text.decode("utf-8"))
    except OSError as error:
        why = error.strerror or str(error)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        why = f"it is not TOML: {error}"
    if needed:  # the errors of a file that others own are not ours to report
        refuse(
            f'{path} can\'t be read: {why}. Write lines such as kernel = "rbf(gamma=0.1)", under [fit] for '
            "one command."
        )
    return {}
