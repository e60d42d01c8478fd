"""Tests wait in one way: a loop of their own that sleeps until something has happened may never end."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

Function = ast.FunctionDef | ast.AsyncFunctionDef


def pauses(loop: ast.While) -> bool:
    """Whether a loop sleeps, waits a fixed time, or does nothing but ask again."""
    calls = [each for each in ast.walk(loop) if isinstance(each, ast.Call)]
    named = [(each.func.attr, each.args) for each in calls if isinstance(each.func, ast.Attribute)]
    asks = all(isinstance(each, ast.Pass) for each in loop.body)
    return asks or any(
        name == "sleep" or (name == "wait" and args and isinstance(args[0], ast.Constant))
        for name, args in named
    )


def waiting_loops(text: str) -> list[int]:
    """Lines of such loops in tests and their helpers; what is nested in them or a method is what jobs run."""
    found: list[int] = []
    for function in ast.parse(text).body:
        inner = [each for each in ast.walk(function) if isinstance(each, Function) and each is not function]
        nested = {each for one in inner for each in ast.walk(one)}
        loops = [each for each in ast.walk(function) if isinstance(each, ast.While) and each not in nested]
        found += [loop.lineno for loop in loops if isinstance(function, Function) and pauses(loop)]
    return found


def test_who_waits_does_it_by_until(root: Path) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((root / "tests").rglob("*.py"))}
    own = [path for path in texts if "programs" not in path.parts and path.name != "waiting.py"]

    found = [
        f"{path}:{line}" for path in own if "while " in texts[path] for line in waiting_loops(texts[path])
    ]

    assert found == [], "use tests.waiting.until"


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("while not there():\n  clock.sleep(x)", [2]),
        ("while not there():\n  pause.wait(0.01)", [2]),
        ("with some:\n  while not there(): pass", [3]),
        ("while not there():\n  assert rung.wait(PATIENCE_S)", []),
        ("def job():\n  while True:\n   clock.sleep(1)", []),
    ],
    ids=["sleeps", "waits", "asks", "is rung for", "is what a job does"],
)
def test_a_loop_that_waits_is_told_from_others(body: str, lines: list[int]) -> None:
    indented = "\n".join(f" {line}" for line in body.splitlines())

    assert waiting_loops(f"def test_it():\n{indented}") == lines
