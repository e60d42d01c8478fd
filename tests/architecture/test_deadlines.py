"""Deadlines are kept by `clock.monotonic()`: a wall clock that is set back would keep whoever waits for that long."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PRODUCT = ("backends", "cdc", "connectors", "runtime", "tidegate", "twophase")

ABOUT_TIMES_OF_DAY: dict[str, str] = {
    "connectors/kafka/security.py": "learns and says when a token expires, as a time of day",
    "connectors/kafka/transactions.py": "compares with a time that another process wrote down",
    "runtime/job.py": "says how long ago the checkpoint was taken that a start resumes from",
    "runtime/spark/tasks.py": "says until when work lasts to the driver, which may run on another machine",
    "runtime/task/runner.py": "fires processing-time timers, which users register for a time of day",
    "tidegate/testing/source.py": "is a clock itself",
}
"""Where a time of day is calculated with or compared, and why."""


def reads_wall_clock(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "now_ms"


def deadlines(text: str) -> list[int]:
    """Lines that calculate with what a wall clock shows, or compare it."""
    found: list[int] = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Div(), right):
                operands = [left, right]
            case ast.Compare(left, _, comparators):
                operands = [left, *comparators]
            case _:
                continue
        if any(map(reads_wall_clock, operands)):
            found.append(node.lineno)
    return found


def test_deadlines_are_not_kept_by_the_wall_clock(root: Path) -> None:
    files = [path for room in PRODUCT for path in sorted((root / room).rglob("*.py"))]
    found = {
        str(path.relative_to(root)): lines
        for path in files
        if (lines := deadlines(path.read_text(encoding="utf-8")))
    }

    unexpected = {path: lines for path, lines in found.items() if path not in ABOUT_TIMES_OF_DAY}
    assert unexpected == {}, "use clock.monotonic(), or say in ABOUT_TIMES_OF_DAY why it is a time of day"
    assert found.keys() == ABOUT_TIMES_OF_DAY.keys(), "an exception is not needed any more"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("self._next_ms = self._clock.now_ms() + PAUSE_MS", [1]),
        ("clock.sleep((until_ms - clock.now_ms()) / 1_000)", [1]),
        ("if self._next_ms <= clock.now_ms(): look()", [1]),
        ("event = Event(clock.now_ms())", []),
        ("until = clock.monotonic() + PAUSE_S", []),
    ],
    ids=["a deadline", "a wait", "a comparison", "a time of day", "a monotonic deadline"],
)
def test_a_deadline_by_the_wall_clock_is_told_from_other_uses(line: str, found: list[int]) -> None:
    assert deadlines(line) == found
