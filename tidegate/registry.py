"""Registry of implementations: entry points found by name, so that the engine imports none of them.

Every connector, backend, kind of checkpoint storage and table factory is registered as an entry point of its
distribution; so does an operator of another package.

Example:
    >>> load("tidegate.backends", "heap").name
    'heap'
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final, Literal

from tidegate.errors import ConfigError

__all__ = ["Group", "load", "names"]

Group = Literal[
    "tidegate.backends", "tidegate.connectors", "tidegate.operators", "tidegate.storages", "tidegate.tables"
]

_TITLES: Final[Mapping[Group, str]] = {
    "tidegate.backends": "backend",
    "tidegate.connectors": "connector",
    "tidegate.operators": "operator",
    "tidegate.storages": "storage",
    "tidegate.tables": "table factory",
}


@cache
def load(group: Group, name: str) -> Any:
    """The object registered as `name`.

    Raises:
        ConfigError: the name is unknown or ambiguous, or its object cannot be imported.
    """
    found = list(entry_points(group=group, name=name))
    if not found:
        known = names(group)
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}" if near else f"known are {', '.join(known)}"
        raise ConfigError(f"no {_TITLES[group]} is called {name!r}; {hint}")
    values = sorted({point.value for point in found})
    if len(values) > 1:
        raise ConfigError(
            f"{_TITLES[group]} {name!r} is ambiguous; got {' and '.join(values)}; expected one of them; uninstall the others"
        )
    try:
        return found[0].load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{group} entry point {name!r} = {found[0].value!r} cannot be loaded: {error}"
        ) from error


def names(group: Group) -> list[str]:
    """All registered names, sorted."""
    return sorted({point.name for point in entry_points(group=group)})
