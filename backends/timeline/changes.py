"""Difference between two contents of an operator's state, record by record.

Example:
    >>> from tidegate.backends.keyed.address import ROWS
    >>> from tidegate.backends.savepoint.records import Record
    >>> count = StateEntry("count", "value", ROWS, 0, "long", "msgspec", 1)
    >>> before = [(7, {count: [Record(b"ada", b"", None, b"5")]})]
    >>> after = [(7, {count: [Record(b"ada", b"", None, b"6")]})]
    >>> [(change.key, change.before, change.after) for change in changes(before, after)]
    [(b'ada', b'5', b'6')]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.savepoint.records import Records

__all__ = ["Change", "changes"]


class Change(NamedTuple):
    """One record that came, went or became another; `state` describes the newer side, if there is one.

    `sub` is the position in a list, the time of a timer, or the bytes of a map's key.
    """

    state: StateEntry
    key: bytes
    namespace: bytes
    sub: Any
    before: bytes | None
    after: bytes | None


_Place: TypeAlias = tuple[str, str, bytes, bytes, Any]
_Found: TypeAlias = dict[_Place, tuple[StateEntry, bytes]]


def changes(before: Iterable[tuple[int, Records]], after: Iterable[tuple[int, Records]]) -> Iterator[Change]:
    """The difference of two contents that come by key group; at most one key group of each is held."""
    lefts, rights = iter(before), iter(after)
    left, right = next(lefts, None), next(rights, None)
    while left is not None or right is not None:
        group = min(side[0] for side in (left, right) if side is not None)
        old: _Found = {}
        new: _Found = {}
        if left is not None and left[0] == group:
            old, left = _found(left[1]), next(lefts, None)
        if right is not None and right[0] == group:
            new, right = _found(right[1]), next(rights, None)
        yield from _between(old, new)


def _found(records: Records) -> _Found:
    return {
        (state.name, state.kind, record.key, record.namespace, record.sub): (state, record.value)
        for state, held in records.items()
        for record in held
    }


def _between(old: _Found, new: _Found) -> Iterator[Change]:
    places = [*old, *(place for place in new if place not in old)]
    for place in sorted(places, key=_order):
        state, before = old.get(place, (None, None))
        newer, after = new.get(place, (state, None))
        if before != after and newer is not None:
            yield Change(newer, *place[2:], before, after)


def _order(place: _Place) -> Any:
    name, kind, key, namespace, sub = place
    return key, kind == "timers", name, namespace, sub if sub is not None else 0
