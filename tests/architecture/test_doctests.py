"""Every example in a docstring of the package runs as it is written."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per module with examples, so that each is found by its name."""
    root = Path(__file__).resolve().parent.parent.parent
    rooms = {"tidegate": root / "tidegate"}
    for folder in ("backends", "twophase", "connectors", "cdc", "runtime"):
        rooms[f"tidegate.{folder}"] = root / folder
    names = [
        ".".join(
            (
                package,
                *(part for part in path.relative_to(folder).with_suffix("").parts if part != "__init__"),
            )
        )
        for package, folder in rooms.items()
        for path in sorted(folder.rglob("*.py"))
        if ">>>" in path.read_text(encoding="utf-8")
    ]
    metafunc.parametrize("name", names)


def test_docstring_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)

    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)

    assert result.attempted > 0
    assert result.failed == 0
