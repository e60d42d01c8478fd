"""There is one implementation of the checkpoint protocol, and every executor runs it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HOME = "tidegate.runtime.checkpoint.coordinator"
EXECUTORS = ("tidegate.runtime.embedded", "tidegate.runtime.spark")


def classes(tree: ast.Module) -> set[str]:
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def imported_names(tree: ast.Module, source: str) -> set[str]:
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == source
        for alias in node.names
    }


def test_only_one_module_defines_a_coordinator(trees: dict[str, ast.Module]) -> None:
    homes = {
        name
        for name, tree in trees.items()
        if name.startswith("tidegate.runtime.")
        and any(kind.endswith("Coordinator") for kind in classes(tree))
    }

    assert homes == {HOME}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_executor_runs_that_coordinator(
    executor: str, trees: dict[str, ast.Module], modules: dict[str, Path]
) -> None:
    parts = {
        name: tree
        for name, tree in trees.items()
        if name.startswith(f"{executor}.") and modules[name].name != "__init__.py"
    }
    coordinators = {kind for kind in classes(trees[HOME]) if kind.endswith("Coordinator")}
    users = [name for name, tree in parts.items() if imported_names(tree, HOME) & coordinators]

    assert coordinators
    assert users or not parts
