"""Environments of other systems are made once, and what is missing is said."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import MissingExtraError, UnavailableError


@pytest.fixture
def environments(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3]))
    return importlib.import_module("benchmarks.environments")


def test_a_peer_that_needs_java_names_the_package_when_there_is_none(
    environments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(
        MissingExtraError, match=r"needs Java 11 or newer.*apt-get install openjdk-17-jre-headless"
    ):
        environments.interpreter(environments.PYFLINK, tmp_path)


def test_java_is_judged_by_the_version_it_tells(
    environments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert environments.java_version() == 17


@pytest.mark.setup
def test_what_pip_cannot_install_is_not_taken_for_installed(
    environments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    peer = environments.Peer("nothing", "tidegate-no-such-peer==1")

    for _ in range(2):
        with pytest.raises(
            UnavailableError, match=r"tidegate-no-such-peer==1 could not be installed in (?s:.*)No matching"
        ):
            environments.interpreter(peer, tmp_path)


def test_an_environment_is_made_once(environments: Any, tmp_path: Path) -> None:
    folder = tmp_path / "peers" / environments.BYTEWAX.requirement
    folder.mkdir(parents=True)
    (folder / "complete").touch()

    assert environments.interpreter(environments.BYTEWAX, tmp_path) == folder / "venv" / "bin" / "python"
