from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.checkpoint.full import Undecided
from tests.unit.runtime.conftest import Step
from tidegate.backends.spi import Blobs, CheckpointStorage, Decision, Decisions
from tidegate.backends.storage import LocalStorage, MemoryStorage
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.print import PrintSink
from tidegate.connectors.socket import SocketTextSource
from tidegate.connectors.spi import Finding, JobFacts
from tidegate.ids import LineageId, PipelineId, RunId
from tidegate.options import Layer, load
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.graph.transformations import Transformation
from tidegate.runtime.job import Program
from tidegate.runtime.options import JobOptions
from tidegate.runtime.preflight.checks import preflight


class Late(Decisions):
    """Lets everybody win."""

    def __init__(self) -> None:
        self._said = b""

    def create(self, name: str, data: bytes) -> bool:
        self._said = data
        return True

    def swap(self, name: str, old_tag: str | None, data: bytes) -> bool:
        raise AssertionError("it is told apart before")

    def read(self, name: str) -> Decision | None:
        return None


class WithLateDecisions(CheckpointStorage):
    url = "late://storage"

    def __init__(self) -> None:
        self._blobs, self._decisions = MemoryStorage().blobs, Late()

    @property
    def blobs(self) -> Blobs:
        return self._blobs

    @property
    def decisions(self) -> Decisions:
        return self._decisions


class Telling(PrintSink):
    """Has something to say of every job."""

    def preflight(self, job: JobFacts) -> Iterator[Finding]:
        yield Finding("limit", "problem", f"{job.interval_ms} ms and {job.restart_ms} ms is too long")


def program(sink: Transformation, **settings: Any) -> Program:
    given = {"execution.target": "inline"} | {
        key.replace("__", "."): value for key, value in settings.items()
    }
    return Program("job", PipelineId("orders"), (sink,), load(JobOptions, Layer("program", given)), 2)


def told(program: Program, storage: CheckpointStorage | None = None) -> dict[str, Finding]:
    return {each.subject: each for each in preflight(program, storage or MemoryStorage())}


def test_a_sound_program_has_no_problems_and_leaves_nothing_on_its_storage(
    step: Step, tmp_path: Path
) -> None:
    found = told(program(step("sink", step("source"))), LocalStorage(tmp_path))

    assert [each.verdict for each in found.values()] == ["ok"] * 7 + ["warning"]
    assert found["decisions"].found == "atomic swap works: one of two writers wins, a late writer fails"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_program_that_cannot_start_is_the_only_problem(step: Step) -> None:
    source = step("source")
    wide = step("map", source, parallelism=200, max_parallelism=100)

    (found,) = preflight(program(step("sink", wide)), MemoryStorage())

    assert (found.subject, found.verdict) == ("program", "problem")
    assert "200" in found.found
    assert "100" in found.found


def test_functions_that_cannot_be_sent_are_named(step: Step) -> None:
    lock = threading.Lock()
    held = step("map", step("source"), payload=lambda value: (lock, value), uid="locked")

    found = told(program(step("sink", held)))

    assert found["functions"].verdict == "problem"
    assert "locked" in found["functions"].found


def test_a_storage_that_cannot_decide_is_a_warning_and_a_problem_on_spark(step: Step) -> None:
    sink, storage = step("sink", step("source")), Undecided(MemoryStorage())

    assert told(program(sink), storage)["decisions"].verdict == "warning"
    assert told(program(sink, execution__target="local[2]"), storage)["decisions"].verdict == "problem"


def test_a_storage_that_lets_everybody_win_is_a_problem(step: Step) -> None:
    found = told(program(step("sink", step("source"))), WithLateDecisions())

    assert found["decisions"].verdict == "problem"
    assert (
        found["decisions"].found
        == "late://storage does not swap atomically: a file that exists was created a second time"
    )


def test_a_storage_that_cannot_be_written_is_a_problem(step: Step, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    found = told(program(step("sink", step("source"))), LocalStorage(tmp_path / "file"))

    assert found["storage"].verdict == "problem"
    assert str(tmp_path / "file") in found["storage"].found


def test_a_working_directory_that_is_not_there_is_a_problem(step: Step, tmp_path: Path) -> None:
    sink = step("sink", step("source"))

    found = told(program(sink, **{"taskmanager.state.local.root-dirs": f"{tmp_path}/none"}))

    assert found["working directories"].verdict == "problem"
    assert found["working directories"].remedy.endswith("taskmanager.state.local.root-dirs")


def test_a_live_owner_is_named(step: Step) -> None:
    storage = MemoryStorage()
    Pipeline(storage, PipelineId("orders"), RunId("first"), SYSTEM_CLOCK).acquire(
        lambda: LineageId("lineage"), fresh=False, say=print
    )

    found = told(program(step("sink", step("source"))), storage)

    assert found["owner"].verdict == "warning"
    assert f"run first of pid {os.getpid()}" in found["owner"].found


def test_what_cannot_be_read_again_and_what_may_be_written_again_are_warnings(step: Step) -> None:
    source = step("source", payload=SocketTextSource("localhost", 9000), uid="lines")

    found = told(program(step("sink", source, uid="out")))

    assert (
        found["source 'lines'"].found
        == "its input cannot be replayed: records read since the last checkpoint are lost in a failure"
    )
    assert found["sink 'out'"].found == "records since the last checkpoint are written again after a failure"


@pytest.mark.parametrize(
    ("settings", "pauses"),
    [
        (
            {"restart-strategy.fixed-delay.attempts": 4, "restart-strategy.fixed-delay.delay": "2 s"},
            "8000 ms",
        ),
        ({"restart-strategy": "none"}, "0 ms"),
        ({"restart-strategy": "exponential-delay"}, "None ms"),
    ],
    ids=["fixed", "none", "endless"],
)
def test_connectors_are_asked_with_what_is_known_of_the_job(
    step: Step, settings: dict[str, Any], pauses: str
) -> None:
    found = told(program(step("sink", step("source"), payload=Telling()), **settings))

    assert found["limit"].found == f"10000 ms and {pauses} is too long"
