"""The repository as the architecture tests read it."""

from __future__ import annotations

import ast
import gc
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ROOMS: dict[str, Path] = {
    package: ROOT / folder for package, folder in PYPROJECT["tool"]["setuptools"]["package-dir"].items()
}


def find_modules() -> dict[str, Path]:
    found = {}
    for package, folder in ROOMS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join((package, *(part for part in parts if part != "__init__")))] = path
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per module that shows examples, so that each is found by its name."""
    if "module_with_examples" in metafunc.fixturenames:
        names = [name for name, path in find_modules().items() if ">>>" in path.read_text(encoding="utf-8")]
        metafunc.parametrize("module_with_examples", names)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def pyproject() -> dict[str, Any]:
    """`pyproject.toml`."""
    return PYPROJECT


@pytest.fixture(scope="session")
def rooms() -> dict[str, Path]:
    """Package name to top-level folder."""
    return ROOMS


@pytest.fixture(scope="session")
def modules() -> dict[str, Path]:
    """Every module of the package by its import name; a package is named without `__init__`."""
    return find_modules()


@pytest.fixture(scope="session")
def trees(modules: dict[str, Path]) -> dict[str, ast.Module]:
    """Every module of the package, parsed."""
    # CPython counts the depth of a parsed tree once per process: another thread that shows a traceback meanwhile, as
    # Spark's do when Java is gone, parses too. It gets a turn only where the collector runs Python code.
    gc.disable()
    try:
        return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules.items()}
    finally:
        gc.enable()
