"""The table of guarantees says what kit runs have passed: all of it, of every connector, and nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tidegate import registry


@pytest.fixture(scope="module")
def guarantees(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("guarantees", root / ".ci" / "guarantees.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_clause_of_the_kits_belongs_to_one_column(guarantees: ModuleType) -> None:
    assert guarantees.unassigned() == []


def test_every_registered_connector_is_in_the_table_and_none_says_no(guarantees: ModuleType) -> None:
    page = guarantees.PAGE.read_text(encoding="utf-8")

    for name in registry.names("tidegate.connectors"):
        assert not name.endswith((".source", ".sink")) or f"| `{name}` |" in page, (
            f"{name}: run make guarantees"
        )
    assert "**no**" not in page


def test_a_clause_that_failed_takes_the_guarantee_away(guarantees: ModuleType) -> None:
    passed = {"test_nothing_is_visible_before_the_commit": True, "test_a_second_commit_answers": True}
    row = "| `good.sink` |  | yes (1) | yes (1) |  |  |  |  |  |  |\n"
    assert row in guarantees.tables({"good.sink": passed})

    failed = {**passed, "test_a_second_commit_answers": False}
    assert row.replace("| yes (1) |  ", "| **no** |  ", 1) in guarantees.tables({"good.sink": failed})


def test_a_connector_without_a_kit_run_is_named(guarantees: ModuleType) -> None:
    assert "connector files.sink has no kit run: mark its class with its name" in guarantees.unproven({})
    assert not any("blackhole" in problem for problem in guarantees.unproven({}))
