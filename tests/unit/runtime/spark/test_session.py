"""What is said when Spark cannot be started, and how a local one is."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tidegate.errors import ConfigError, MissingExtraError, UnavailableError
from tidegate.runtime.spark.session import check_java, check_spark, reach, settings_for


def java(directory: Path, says: str) -> dict[str, str]:
    """An environment whose only java says this about itself."""
    program = directory / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(directory)}


def test_missing_pyspark_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)

    with pytest.raises(MissingExtraError, match=r"run: pip install 'tidegate\[spark\]'"):
        check_spark({})


@pytest.mark.parametrize(
    ("environ", "place"),
    [({"PATH": ""}, "on PATH"), ({"JAVA_HOME": "/nowhere"}, "below JAVA_HOME /nowhere")],
    ids=["path", "home"],
)
def test_missing_java_says_where_it_was_looked_for(environ: dict[str, str], place: str) -> None:
    with pytest.raises(ConfigError, match=rf"spark needs java and there is none {place}; install Java 17"):
        check_java(environ)


@pytest.mark.parametrize(
    ("says", "got"),
    [
        ('openjdk version "11.0.2"', "Java 11"),
        ('java version "1.8.0_402"', "Java 8"),
        ("hello", "no version"),
    ],
)
def test_an_old_java_is_refused(tmp_path: Path, says: str, got: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"spark needs Java 17 or newer; got {got} from .*bin/java; install"
    ):
        check_java(java(tmp_path, says))


@pytest.mark.parametrize("says", ['openjdk version "17.0.15"', 'openjdk version "21-ea"'])
def test_a_new_java_is_taken(tmp_path: Path, says: str) -> None:
    check_java(java(tmp_path, says))


def test_a_session_of_spark_connect_is_refused_with_what_works_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")

    with pytest.raises(
        ConfigError, match=r"connected by Spark Connect.*unset SPARK_REMOTE.*or set execution.target"
    ):
        check_spark({})


def test_settings_follow_where_executors_are() -> None:
    local = settings_for("local[2]", preload=True)
    near = settings_for("spark://127.0.0.1:7077", preload=False)
    far = settings_for("yarn", preload=True)

    assert local["spark.ui.enabled"] == "false"
    assert near["spark.driver.host"] == "localhost"
    assert "spark.ui.enabled" not in near
    assert "spark.driver.host" not in far
    assert [settings.get("spark.python.daemon.module") for settings in (local, near, far)] == [
        "tidegate.runtime.spark.daemon",
        None,
        "tidegate.runtime.spark.daemon",
    ]


def test_a_master_that_nobody_answers_for_is_named_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]

        with pytest.raises(
            UnavailableError,
            match=rf"no spark master answers at spark://127.0.0.1:{port}: .*; start it, or name another",
        ):
            reach(f"spark://127.0.0.1:{port}")


def test_one_of_several_masters_is_enough() -> None:
    with socket.socket() as closed, socket.create_server(("127.0.0.1", 0)) as open_one:
        closed.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in (closed, open_one)]

        reach("spark://" + ",".join(f"127.0.0.1:{port}" for port in ports))


def test_other_masters_are_left_to_spark() -> None:
    reach("local[2]")
    reach("yarn")
