"""What `plan` says before a start is what the start then does."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.storage import StorageFiles
from tidegate.runtime.checkpoint.savepoint import open_snapshot, write_savepoint
from tidegate.runtime.cli.main import main
from tidegate.runtime.options import SavepointFormat

PROGRAM = """
from tidegate.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment, state
from tidegate.connectors.generator import GeneratorSource

class Count(KeyedProcessFunction):
    count = state.Value({type}, default={type}())
    {more}

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + {type}(1))
        yield value

def uid(stream, name):
    return stream.uid({prefix!r} + name) if {named} else stream

def odd(stream):
    return stream.filter(lambda number: number % 2)

class Twice(ProcessFunction):
    def process_element(self, value, ctx):
        yield from (value, value)

def twice(stream):
    return stream.process(Twice())

def count(stream):
    return uid(stream.key_by(lambda number: number % 5).process(Count()), "counts")

def total(stream):
    return uid(stream.key_by(lambda number: number % 3).sum(), "totals")

env = StreamExecutionEnvironment.get_execution_environment()
numbers = uid(env.from_source(GeneratorSource(lambda n: n, count={read})), "numbers")
stream = numbers
for step in ({steps}):
    stream = step(stream)
stream.print()
env.execute("planned")
"""

Tell = Callable[..., "tuple[int, dict[str, Any]]"]
Start = Callable[..., int]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Writes the program in a version of its own and hands it to a command."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    def run(command: str, *options: str, steps: str = "count, total,", **version: Any) -> int:
        written = {"type": "int", "more": "", "named": True, "prefix": "", "read": 20} | version
        (tmp_path / "job.py").write_text(PROGRAM.format(steps=steps, **written))
        settings = ["execution.target=inline", "pipeline.progress=off", "parallelism.default=2"]
        given = [word for setting in settings for word in ("-D", setting)]
        return main([command, *given, *options, "job.py"])

    return run


@pytest.fixture
def tell(start: Start, capsys: pytest.CaptureFixture[str]) -> Tell:
    """The exit code of `plan` and what it says of each operator."""

    def plan(*options: str, **version: Any) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = start("plan", "--json", *options, **version)
        told = json.loads(capsys.readouterr().out)
        return code, told | {"of": {each["uid"]: each for each in told["operators"]}}

    return plan


def verdicts(told: dict[str, Any]) -> dict[str, str]:
    return {uid: each["verdict"] for uid, each in told["of"].items()}


def states(told: dict[str, Any], uid: str) -> dict[str, str]:
    return {each["name"]: each["verdict"] for each in told["of"][uid]["states"]}


@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
def test_an_unchanged_program_is_restored(start: Start, tell: Tell, backend: str) -> None:
    of_backend = ("-D", f"state.backend.type={backend}")
    assert start("run", *of_backend) == 0

    code, told = tell(*of_backend, "-s", "1")

    assert code == 0
    assert verdicts(told) == {"counts": "restored", "totals": "restored"}
    assert states(told, "counts") == {"count": "restored"}
    assert told["obstacles"] == []


@pytest.mark.spec("004/CHK-015")
@pytest.mark.parametrize(
    ("prefix", "code", "of_counts"),
    [("", 0, "restored"), ("new-", 4, "lost")],
    ids=["same uids", "other uids"],
)
def test_operators_in_another_order_are_found_by_their_uids(
    start: Start, tell: Tell, prefix: str, code: int, of_counts: str
) -> None:
    assert start("run") == 0

    planned, told = tell("-s", "1", steps="total, count,", prefix=prefix)

    assert (planned, verdicts(told)["counts"]) == (code, of_counts)
    assert (start("run", "-s", "1", steps="total, count,", prefix=prefix) == 0) == (code == 0)


@pytest.mark.spec("004/CHK-016")
def test_a_new_operator_starts_empty_whether_it_keeps_state_or_not(start: Start, tell: Tell) -> None:
    assert start("run", steps="count,") == 0

    code, told = tell("-s", "1", steps="odd, count, total,")

    assert code == 0
    assert verdicts(told) == {"counts": "restored", "totals": "new"}
    assert start("run", "-s", "1", steps="odd, count, total,") == 0


@pytest.mark.spec("004/CHK-017")
def test_state_without_an_operator_is_lost_and_has_to_be_given_up(start: Start, tell: Tell) -> None:
    assert start("run") == 0

    code, told = tell("-s", "1", steps="total,")
    assert code == 4
    assert verdicts(told) == {"totals": "restored", "counts": "lost"}
    assert states(told, "counts") == {"count": "lost"}
    assert "--allow-non-restored-state" in told["obstacles"][0]
    assert start("run", "-s", "1", steps="total,") == 2

    given_up = ("-s", "1", "--allow-non-restored-state")
    code, told = tell(*given_up, steps="total,")
    assert (code, told["obstacles"]) == (0, [])
    assert start("run", *given_up, steps="total,") == 0


@pytest.mark.spec("004/CHK-018")
@pytest.mark.parametrize(("named", "code"), [(True, 0), (False, 4)])
def test_a_new_operator_without_state_shifts_uids_that_nobody_gave(
    start: Start, tell: Tell, named: bool, code: int
) -> None:
    assert start("run", steps="count,", named=named) == 0

    planned, told = tell("-s", "1", steps="twice, count,", named=named)

    assert planned == code
    assert ("undecided" in verdicts(told).values()) != named
    assert (start("run", "-s", "1", steps="twice, count,", named=named) == 0) == named


def test_state_of_another_type_does_not_fit(start: Start, tell: Tell) -> None:
    assert start("run") == 0

    code, told = tell("-s", "1", type="str")

    assert code == 4
    assert verdicts(told) == {"counts": "incompatible", "totals": "restored"}
    assert (
        "state 'count' was stored with another type; stored as int, the program declares str;"
        in told["obstacles"][0]
    )
    assert start("run", "-s", "1", type="str") != 0


def test_state_that_is_not_asked_for_any_more_is_carried_on_beside_what_is_new(
    start: Start, tell: Tell
) -> None:
    assert start("run", more="seen = state.List(int)") == 0

    code, told = tell("-s", "1", more="last = state.Map(str, int)")

    assert code == 0
    assert states(told, "counts") == {"count": "restored", "seen": "unused", "last": "new"}


def test_a_function_that_cannot_be_opened_is_unknown(start: Start, tell: Tell) -> None:
    assert start("run") == 0

    code, told = tell("-s", "1", more='open = lambda self, context: int("x")')

    assert code == 0
    assert verdicts(told)["counts"] == "unknown"
    assert "could not be opened" in told["of"]["counts"]["why"]


@pytest.mark.parametrize("form", ["canonical", "native"])
def test_a_savepoint_is_named_by_its_path(
    start: Start, tell: Tell, tmp_path: Path, form: SavepointFormat
) -> None:
    assert start("run") == 0
    (newest,) = Path(os.environ["XDG_STATE_HOME"]).glob("tidegate/*/chk-1")
    found = open_snapshot(newest)
    files = StorageFiles(found.storage.blobs, "")
    write_savepoint(found.manifest, files, tmp_path / "kept", "filesystem", form)

    code, told = tell("--against", str(tmp_path / "kept"), type="str")

    assert code == 4
    assert verdicts(told) == {"counts": "incompatible", "totals": "restored"}


def test_tables_are_for_people(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    assert start("run") == 0
    capsys.readouterr()

    assert start("plan", "-s", "1", steps="total,") == 4

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["totals", "2", "->", "2", "restored"] in lines
    assert ["counts", "2", "->", "none", "lost"] in lines
    assert lines[-1][:5] == ["to", "be", "decided:", "the", "state"]


def test_a_pipeline_without_checkpoints_has_nothing_to_plan_against(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start("plan") == 2
    assert "'planned'" in capsys.readouterr().err


def test_a_place_that_holds_no_snapshot_is_bad_use(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    assert start("plan", "--against", "nowhere") == 2
    assert "'nowhere' is not a checkpoint or savepoint" in capsys.readouterr().err
