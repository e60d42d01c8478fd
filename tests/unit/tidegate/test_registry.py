"""Implementations are found by name, exactly one for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate import registry
from tidegate.errors import ConfigError


def installed(place: Path, name: str, value: str) -> None:
    about = place / f"{name}-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(
        f"[tidegate.tables]\ntwice-of-a-test = {value}\n", encoding="utf-8"
    )


def test_a_name_that_two_packages_have_is_refused_with_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "one", "one:Table")
    installed(tmp_path, "two", "two:Table")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(
        ConfigError,
        match="table factory 'twice-of-a-test' is ambiguous; got one:Table and two:Table; expected one of them; uninstall",
    ):
        registry.load("tidegate.tables", "twice-of-a-test")


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no backend is called 'haep'; did you mean 'heap'"):
        registry.load("tidegate.backends", "haep")
    with pytest.raises(
        ConfigError, match="no table factory is called 'zzz'; known are datagen, jdbc, postgres-cdc, print"
    ):
        registry.load("tidegate.tables", "zzz")
