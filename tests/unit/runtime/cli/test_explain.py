"""`tidegate explain`: programs run up to where they would start."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tidegate.runtime.cli.main import main

PROGRAM = """
import sys
from tidegate.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_parallel_collection([1, 2]).map(str).name(" ".join(sys.argv[1:]) or "text").print()
try:
    env.execute("numbers")
except Exception:
    print("the program took the end for an error")
print("the program went on")
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["tidegate"])
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "job.py").write_text(PROGRAM)
    return str(tmp_path / "job.py")


def test_words_come_without_running(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-D", "parallelism.default=1", job]) == 0

    shown = capsys.readouterr().out
    assert shown.startswith("numbers: 3 steps, 1 chain, 1 subtask, 1 slot on embedded\n")
    assert "the program" not in shown


def test_settings_and_arguments_reach_the_program(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", job, "-D", "parallelism.default=3", "--", "as", "text"]) == 0

    shown = capsys.readouterr().out
    assert "3 subtasks" in shown
    assert "as text" in shown


STATEFUL = """
from tidegate import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor

class RunningTotal(KeyedProcessFunction):
    def open(self, context):
        self.total = context.get_state(ValueStateDescriptor("total", default=0))

    def process_element(self, payment, ctx):
        yield payment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).key_by(str).process(RunningTotal()).uid("totals").print()
env.execute("totals")
"""


def test_classes_and_states_are_named(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(job).write_text(STATEFUL)

    assert main(["explain", job]) == 0

    shown = capsys.readouterr().out
    assert "uid totals, RunningTotal\n" in shown
    assert ": 'total' per key, in 128 key groups\n" in shown


def test_options_may_follow_the_program(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", job, "--code", "-D", "parallelism.default=1"]) == 0
    assert capsys.readouterr().out.startswith("# chain 1: Source: Collection Source -> text -> Sink: Print")

    assert main(["explain", job, "-D", "parallelism.default=1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"]

    assert main(["explain", job, "--", "--json"]) == 0
    assert "--json" in capsys.readouterr().out, "behind -- it is the program's own"


def test_code_and_plan_are_printed(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--code", job]) == 0
    assert capsys.readouterr().out.startswith("# chain 1: Source: Collection Source -> text -> Sink: Print")

    assert main(["explain", "--json", job]) == 0
    assert [node["id"] for node in json.loads(capsys.readouterr().out)["nodes"]] == [1, 2, 3]


def test_the_picture_goes_into_the_file(job: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["explain", "--svg", "plan.svg", job]) == 0

    assert capsys.readouterr().out == "numbers: picture in plan.svg\n"
    assert (tmp_path / "plan.svg").read_text(encoding="utf-8").startswith("<svg ")


def test_a_file_that_executes_nothing_is_refused(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.py").write_text("pass\n")

    assert main(["explain", "empty.py"]) == 2
    assert main(["explain", "missing.py"]) == 2

    errors = capsys.readouterr().err
    assert "empty.py ended without executing a program; expected a call of env.execute()" in errors
    assert "missing.py is not a file" in errors


def test_a_program_that_cannot_start_is_refused(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = PROGRAM.replace(".map(str)", ".set_parallelism(2).forward().map(str).set_parallelism(3)")
    (tmp_path / "job.py").write_text(wrong)

    assert main(["explain", job]) == 2

    assert "needs equal parallelism; use rebalance()" in capsys.readouterr().err
