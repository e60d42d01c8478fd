"""Finds implementations by name, so the engine imports none of them and third parties plug in as ours do.

Every connector, backend and kind of checkpoint storage announces itself as an entry point of its distribution.

Example:
    >>> load("tidegate.backends", "heap").name
    'heap'
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Literal

from tidegate.errors import ConfigError

__all__ = ["Group", "load", "names"]

Group = Literal["tidegate.backends", "tidegate.connectors", "tidegate.storages"]


@cache
def load(group: Group, name: str) -> Any:
    """The object registered as `name`.

    Raises:
        ConfigError: nothing has that name, or what has it cannot be imported.
    """
    found = list(entry_points(group=group, name=name))
    if not found:
        known = names(group)
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}" if near else f"known are {', '.join(known)}"
        raise ConfigError(f"no {group.rpartition('.')[2].removesuffix('s')} is called {name!r}; {hint}")
    try:
        return found[0].load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{group} entry point {name!r} = {found[0].value!r} cannot be loaded: {error}"
        ) from error


def names(group: Group) -> list[str]:
    """All registered names, sorted."""
    return sorted({point.name for point in entry_points(group=group)})
