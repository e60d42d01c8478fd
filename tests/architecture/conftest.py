"""The repository as the architecture tests read it."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def pyproject(root: Path) -> dict[str, Any]:
    """`pyproject.toml`."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def rooms(root: Path, pyproject: dict[str, Any]) -> dict[str, Path]:
    """Package name to top-level folder."""
    mapping: dict[str, str] = pyproject["tool"]["setuptools"]["package-dir"]
    return {package: root / folder for package, folder in mapping.items()}


@pytest.fixture(scope="session")
def modules(rooms: dict[str, Path]) -> dict[str, Path]:
    """Every module of the package by its import name; a package is named without `__init__`."""
    found = {}
    for package, folder in rooms.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join((package, *(part for part in parts if part != "__init__")))] = path
    return found


@pytest.fixture(scope="session")
def trees(modules: dict[str, Path]) -> dict[str, ast.Module]:
    """Every module of the package, parsed."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules.items()}
