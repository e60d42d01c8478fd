"""The model of random programs: what comes of a list of changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, TypeAlias

__all__ = ["Change", "expected"]

Change: TypeAlias = tuple[int, int, int]
"""A kind, a key and a number."""


def turn(change: Change) -> Change:
    kind, key, number = change
    return 3 - kind, key, number


def turn_odd(change: Change) -> list[Change]:
    return [turn(change) if change[2] % 2 else change]


def totals(changes: list[Change], amount: Callable[[int, int], int]) -> list[Change]:
    found: dict[int, int] = defaultdict(int)
    for kind, key, number in changes:
        found[key] += amount(kind, number)
    return [(0, key, total % 10) for key, total in found.items()]


def rounds(number: int) -> int:
    return number - 3 if number <= 5 else rounds(number - 3)


OF_ONE: dict[str, Callable[[Change], list[Change]]] = {
    "map": lambda each: [turn(each)],
    "insertions": lambda each: [(0, each[1], each[2] + 1)],
    "filter": lambda each: [each] if each[0] != each[2] % 4 else [],
    "flat map": lambda each: [each, turn(each)],
    "process": turn_odd,
    "keyed map": lambda each: [turn(each)],
    "later": turn_odd,
    "reduce": lambda each: [(0, each[1], 0)],
    "expressions": lambda each: [(each[0], each[1], each[2] * 3)] if each[2] != 4 else [],
    "split expressions": turn_odd,
    "union": lambda each: [each, turn(each)],
    "co-map": lambda each: [each, turn(each)] if each[2] > 4 else [each],
    "co-flat map": lambda each: [each, each] if each[0] else [each],
    "co-process": lambda each: [each, *turn_odd(each)] if each[2] > 4 else [each],
    "broadcast process": lambda each: [each, turn(each)] if each[2] > 6 else [each],
    "keyed broadcast process": lambda each: [each, turn(each)] if each[2] > 6 else [each],
    "iteration": lambda each: [(each[0], each[1], rounds(each[2]))],
}
OF_ALL: dict[str, Callable[[list[Change]], list[Change]]] = {
    "total": lambda changes: totals(changes, lambda kind, number: number if kind in (0, 2) else -number),
    "windows": lambda changes: totals(changes, lambda _, number: number + 1),
    "last reduce": lambda changes: totals(changes, lambda *_: 0),
}


def expected(steps: list[Any], changes: list[Change], bounded: bool = False) -> Counter[Change]:
    """What comes out, in any order; a step that neither table knows changes nothing."""
    for step in steps:
        if not isinstance(step, str):
            changes = changes * (step[1] if step[0] == "broadcast" else 1)
        elif step in OF_ALL or (bounded and step == "reduce"):
            changes = OF_ALL["last reduce" if step == "reduce" else step](changes)
        elif step in OF_ONE:
            changes = [result for change in changes for result in OF_ONE[step](change)]
    return Counter(changes)
