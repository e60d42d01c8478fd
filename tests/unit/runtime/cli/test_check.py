from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.runtime.cli.main import main

PROGRAM = """
from tidegate.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_parallel_collection([1, 2]).uid("numbers").key_by(lambda n: n).reduce(lambda a, b: a + b).uid("{uid}").print()
env.execute("checked")
"""

Start = Callable[..., int]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    def run(command: str, *options: str, uid: str = "sums") -> int:
        (tmp_path / "job.py").write_text(PROGRAM.format(uid=uid))
        settings = ("-D", "execution.target=inline", "-D", "pipeline.progress=off")
        return main([command, *settings, *options, "job.py"])

    return run


def test_a_sound_program_is_told_so_in_a_table(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    assert start("check", "-D", "parallelism.default=3") == 0

    rows = capsys.readouterr().out.splitlines()
    assert rows[0].split() == ["verdict", "subject", "found", "remedy"]
    assert {row.split()[0] for row in rows[1:]} == {"ok", "warning"}
    assert any("has 3 subtasks of at most 128" in row for row in rows)


def test_a_problem_is_a_failure_for_programs_too(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    assert start("check", "--json", "-D", "taskmanager.state.local.root-dirs=/none") == 1

    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    (problem,) = [each for each in told["findings"] if each["verdict"] == "problem"]
    assert problem["found"].startswith("/none cannot be written")


PATHS = """
from tidegate import FileSink, StreamExecutionEnvironment
from tidegate.connectors.files import TextFileSource

env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
env.from_source(TextFileSource("here/missing")).uid("texts").sink_to(FileSink("here/taken/out")).uid("out")
env.execute("paths")
"""


def test_files_and_directories_are_looked_at_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "taken").write_text("a file")
    (tmp_path / "job.py").write_text(PATHS)

    assert main(["check", "job.py", "--json"]) == 1

    problems = [
        each["found"]
        for each in json.loads(capsys.readouterr().out)["findings"]
        if each["verdict"] == "problem"
    ]
    assert problems == ["here/missing does not exist", f"{tmp_path}/here/taken is not a directory"]


@pytest.mark.parametrize(
    ("options", "uid", "code", "found"),
    [
        ((), "sums", 0, "pipeline 'checked' starts without state, with a new lineage"),
        (("-s", "1"), "sums", 0, "checkpoint 1 can be restored"),
        (("-s", "1"), "totals", 1, "the state of 'sums' has no operator in the program"),
    ],
    ids=["finished", "same", "renamed"],
)
def test_state_is_looked_at_before_the_start(
    start: Start,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    uid: str,
    code: int,
    found: str,
) -> None:
    assert start("run") == 0
    capsys.readouterr()

    assert start("check", "--json", *options, uid=uid) == code

    findings = json.loads(capsys.readouterr().out)["findings"]
    (state,) = [each["found"] for each in findings if each["subject"] == "state"]
    assert state.startswith(found)
