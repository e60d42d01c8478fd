"""Columns as dictionaries, one for each row.

Example:
    >>> dictionaries(("id", "name"))([[1, 2], ["Ann", "Bo"]])
    [{'id': 1, 'name': 'Ann'}, {'id': 2, 'name': 'Bo'}]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

__all__ = ["dictionaries"]


@lru_cache
def dictionaries(names: tuple[str, ...]) -> Callable[[Sequence[Sequence[Any]]], list[dict[str, Any]]]:
    """What makes the dictionaries of columns with these names, at least one."""
    # Written out, a dictionary takes a third of the time of one made of pairs.
    fields = ", ".join(f"f{number}" for number in range(len(names)))
    pairs = ", ".join(f"{name!r}: f{number}" for number, name in enumerate(names))
    source = f"def rows(columns): return [{{{pairs}}} for {fields}, in zip(*columns, strict=True)]"
    scope: dict[str, Any] = {}
    exec(compile(source, f"<rows of {', '.join(names)}>", "exec"), scope)
    rows: Callable[[Sequence[Sequence[Any]]], list[dict[str, Any]]] = scope["rows"]
    return rows
