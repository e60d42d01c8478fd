from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate.runtime.cli.main import main
from tidegate.runtime.flink_conf import flink_keys


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    file = tmp_path / "flink-conf.yaml"
    file.write_text("taskmanager.memory.size: 64\nsecurity.ssl.key-password: hush\n")
    return file


def test_a_file_is_shown_line_by_line_without_its_secrets(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", str(conf)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["taskmanager.memory.size", "64", "mapped", "taskmanager.memory.managed.size"]
    assert lines[2].split()[:3] == ["security.ssl.key-password", "***", "ignored"]
    assert "certificates" in lines[2]


def test_programs_get_json(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--json", str(conf)]) == 0

    assert json.loads(capsys.readouterr().out)[0] == {
        "key": "taskmanager.memory.size",
        "value": "64",
        "status": "mapped",
        "here": "taskmanager.memory.managed.size",
    }


def test_without_a_file_every_key_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--json"]) == 0

    assert {row["key"] for row in json.loads(capsys.readouterr().out)} == set(flink_keys())


def test_a_file_with_a_mistake_is_bad_use(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf.write_text("akka.ask.timeout: soon\n")

    assert main(["config", str(conf)]) == 2
    assert "expected a duration" in capsys.readouterr().err
