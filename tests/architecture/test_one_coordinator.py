"""There is one implementation of the checkpoint protocol, and every executor runs it."""

from __future__ import annotations

import ast

import pytest

HOME = "tidegate.runtime.checkpoint.coordinator"
MESSAGES = (
    "tidegate.runtime.checkpoint.protocol",
    "tidegate.runtime.embedded.messages",
    "tidegate.runtime.spark.messages",
    "tidegate.runtime.task.messages",
    "tidegate.twophase.ledger",
)
EXECUTORS = ("tidegate.runtime.embedded", "tidegate.runtime.spark")


def classes(tree: ast.Module) -> set[str]:
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


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


def performers(tree: ast.Module) -> list[str]:
    """The classes that perform the coordinator's actions."""
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == "ActionPerformer" for base in node.bases)
    ]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_executor_has_one_performer_of_that_coordinators_actions(
    executor: str, trees: dict[str, ast.Module]
) -> None:
    found = {name: performers(tree) for name, tree in trees.items() if name.startswith(f"{executor}.")}

    assert [name for name, classes in found.items() for _ in classes] == [f"{executor}.performer"]


def test_no_message_is_defined_twice(trees: dict[str, ast.Module]) -> None:
    names = [name for module in MESSAGES for name in classes(trees[module])]

    assert sorted(names) == sorted(set(names))
