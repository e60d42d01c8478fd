"""Every public name of PyFlink's DataStream API is here, or the table says why not; the page says what the table says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from tidegate.runtime.alias import table


@pytest.fixture(scope="module")
def migration(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("migration", root / ".ci" / "migration.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_name_is_there_or_explained(migration: ModuleType) -> None:
    assert migration.unexplained(migration.names()[1]) == [], "add them to runtime/pyflink.toml"


def test_every_key_of_the_table_is_needed(migration: ModuleType) -> None:
    assert migration.idle(migration.names()[1]) == [], "remove them from runtime/pyflink.toml"


def test_the_page_is_what_the_table_says(migration: ModuleType) -> None:
    assert migration.PAGE.read_text(encoding="utf-8") == migration.page(), "run .ci/migration.py"


def test_the_list_names_its_version_and_is_sorted(migration: ModuleType) -> None:
    version, listed = migration.names()

    assert re.fullmatch(r"apache-flink \d+\.\d+\.\d+", version)
    assert listed == sorted(set(listed))
    assert "pyflink.datastream.data_stream.DataStream.map" in listed


def test_each_key_has_one_text_in_one_part_of_the_table() -> None:
    parts = table()
    keys = [key for texts in parts.values() for key in texts]

    assert parts.keys() == {"different", "ignored", "refused", "later"}
    assert len(keys) == len(set(keys))
    assert [key for texts in parts.values() for key, text in texts.items() if len(text) < 15] == []
    assert all(text.startswith("not implemented yet") for text in parts["later"].values())


def test_what_is_neither_there_nor_explained_is_found(
    migration: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        migration,
        "table",
        lambda: {
            "different": {"Gone": ""},
            "ignored": {"Forgotten": ""},
            "refused": {"DataStream.map": ""},
            "later": {"Row": ""},
        },
    )
    listed = ["pyflink.datastream.DataStream.map", "pyflink.datastream.NeverHeardOf", "pyflink.nowhere"]

    assert migration.unexplained(listed) == ["pyflink.datastream.NeverHeardOf", "pyflink.nowhere"]
    assert migration.idle(listed) == ["Gone", "Forgotten", "DataStream.map", "Row"]
