"""There is one implementation of the checkpoint protocol, and every executor runs it."""

from __future__ import annotations

import ast

import pytest

HOME = "tidegate.runtime.checkpoint.coordinator"
WORDS = "tidegate.runtime.checkpoint.protocol"
"""What the coordinator is told, and asks for."""
EXECUTORS = ("tidegate.runtime.embedded", "tidegate.runtime.spark")


def classes(tree: ast.Module) -> set[str]:
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def imports_words(tree: ast.Module) -> bool:
    """Whether a module imports the coordinator's words as a module."""
    package, _, name = WORDS.rpartition(".")
    return any(
        node.module == package and any(alias.name == name for alias in node.names)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    )


def makes_coordinator(tree: ast.Module) -> bool:
    """Whether a module calls the class."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id.endswith("Coordinator")
        for node in ast.walk(tree)
    )


def test_only_one_module_defines_a_coordinator(trees: dict[str, ast.Module]) -> None:
    homes = {
        name
        for name, tree in trees.items()
        if name.startswith("tidegate.runtime.")
        and any(kind.endswith("Coordinator") for kind in classes(tree))
    }

    assert homes == {HOME}


def test_only_the_startup_that_all_executors_share_makes_one(trees: dict[str, ast.Module]) -> None:
    makers = {
        name
        for name, tree in trees.items()
        if name.startswith("tidegate.runtime.") and makes_coordinator(tree)
    }

    assert makers == {"tidegate.runtime.job"}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_executor_performs_that_coordinators_actions(
    executor: str, trees: dict[str, ast.Module]
) -> None:
    users = [name for name, tree in trees.items() if name.startswith(f"{executor}.") and imports_words(tree)]

    assert f"{executor}.attempt" in users
