from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import ConfigError
from tidegate.testing.services.java import find_java, parse_version


def java_home(folder: Path, script: str) -> dict[str, str]:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(folder), "PATH": ""}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param('openjdk version "17.0.15" 2025-04-15', 17, id="modern"),
        pytest.param('java version "1.8.0_402"', 8, id="before 9"),
        pytest.param('openjdk version "26" 2026-03-17', 26, id="no minor"),
        pytest.param("segmentation fault", None, id="nothing"),
    ],
)
def test_the_major_version_is_read(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def test_java_home_is_used(tmp_path: Path) -> None:
    environment = java_home(tmp_path, "echo 'openjdk version \"21.0.2\"' >&2")
    assert find_java(environment) == tmp_path / "bin" / "java"


def test_java_on_the_path_is_used_without_java_home(tmp_path: Path) -> None:
    java_home(tmp_path, "echo 'openjdk version \"17\"' >&2")
    assert find_java({"PATH": str(tmp_path / "bin")}) == tmp_path / "bin" / "java"


def test_an_old_java_is_refused_with_the_remedy(tmp_path: Path) -> None:
    environment = java_home(tmp_path, "echo 'openjdk version \"11.0.2\"' >&2")
    with pytest.raises(
        ConfigError, match=r"bin/java is Java 11; expected Java 17 or newer; install one, e.g. apt"
    ):
        find_java(environment)


def test_a_missing_java_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^java was not found on PATH and JAVA_HOME is not set; expected Java 17"
    ):
        find_java({"PATH": str(tmp_path)})


def test_a_java_home_without_java_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^java cannot be run: .*No such file.*; expected Java 17 or newer"
    ):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_a_java_without_a_version_is_refused_with_the_remedy(tmp_path: Path) -> None:
    environment = java_home(tmp_path, "exit 6")
    with pytest.raises(
        ConfigError, match=r"-version printed no version number, exit code 6; expected Java 17"
    ):
        find_java(environment)
