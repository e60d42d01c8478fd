"""A part of a job that fails restarts alone; the others run on, and every sink writes everything once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from tests.unit.runtime.stream import written as written_down
from tidegate.connectors.files import FileSink
from tidegate.datastream import MapFunction, StreamExecutionEnvironment
from tidegate.errors import JobFailedError

COUNT, RATE = 1_500, 1_500


@pytest.fixture(autouse=True)
def functions_travel_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    for module in (request.module, written_down):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (request.module, written_down):
        cloudpickle.unregister_pickle_by_value(module)


class Noting(MapFunction):
    """Passes records on; notes each attempt, its process and its first record, and does `harm` once, at a record."""

    def __init__(self, file: Path, at: int | None = None, harm: Any = None) -> None:
        self.file = file
        self.at = at
        self.harm = harm

    def open(self, runtime_context: Any) -> None:
        self.begun = False
        with self.file.with_suffix(".opened").open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")

    def map(self, value: int) -> int:
        if not self.begun:
            self.begun = True
            with self.file.open("a", encoding="utf-8") as file:
                file.write(f"{os.getpid()} {value}\n")
        done = self.file.with_suffix(".done")
        if value == self.at and not done.exists():
            done.touch()
            self.harm()
        return value


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def raises() -> None:
    raise ValueError("no such customer")


def two_pipelines(
    place: Path, harm: Any = None, settings: Mapping[str, Any] | None = None
) -> StreamExecutionEnvironment:
    """Numbers to files, twice, without anything in common; `harm` is done to the left one."""
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "embedded",
            "pipeline.progress": "off",
            "parallelism.default": 1,
            "state.checkpoints.dir": str(place / "state"),
            "execution.checkpointing.interval": "100 ms",
            "restart-strategy.fixed-delay.attempts": 1,
            "restart-strategy.fixed-delay.delay": 0,
            **(settings or {}),
        }
    )
    for side in ("left", "right"):
        note = Noting(place / side, 700, harm) if side == "left" and harm else Noting(place / side)
        numbers = env.from_source(written_down.Halting(int, count=COUNT, rate_per_second=RATE, halt=300)).uid(
            f"{side}-numbers"
        )
        numbers.slot_sharing_group(side).map(note).uid(f"{side}-notes").sink_to(
            FileSink(place / f"{side}-out")
        ).uid(f"{side}-files")
    return env


def attempts(place: Path, side: str) -> list[tuple[int, int]]:
    """Process and first record of each."""
    lines = (place / side).read_text(encoding="utf-8").splitlines()
    return [(int(process), int(first)) for process, first in map(str.split, lines)]


def written(place: Path, side: str) -> list[int]:
    files = (place / f"{side}-out").glob("part-*")
    return sorted(int(line) for file in files for line in file.read_text(encoding="utf-8").splitlines())


@pytest.mark.spec("003/JM-09", "003/JM-22", "003/JM-23", "002/FO-02")
@pytest.mark.processes
@pytest.mark.parametrize("harm", [killed, stopped, raises], ids=["killed", "stopped", "raises"])
def test_only_the_part_that_failed_restarts(tmp_path: Path, harm: Any) -> None:
    heartbeats = {"heartbeat.interval": "100 ms", "heartbeat.timeout": "2 s"} if harm is stopped else {}

    logged = {"pipeline.event-log": str(tmp_path / "events"), **heartbeats}

    result = two_pipelines(tmp_path, harm, logged).execute("two")

    events = map(json.loads, (tmp_path / "events").read_text(encoding="utf-8").splitlines())
    states = [event["text"] for event in events if event["what"] == "state"]
    assert states == ["running", "restarting", "running", "finished"], "it does not pass through failing"
    assert (result.state, result.restarts) == ("finished", 1)
    (first, _), (second, resumed_at) = attempts(tmp_path, "left")
    assert first != second
    assert 0 < resumed_at <= 700, "the newest checkpoint lies between the start and the failure"
    assert [from_record for _, from_record in attempts(tmp_path, "right")] == [0]
    assert written(tmp_path, "left") == written(tmp_path, "right") == list(range(COUNT))


@pytest.mark.spec("003/JM-22", "003/JM-25", "002/FO-01")
@pytest.mark.processes
def test_everything_restarts_if_that_is_wanted(tmp_path: Path) -> None:
    env = two_pipelines(tmp_path, killed, {"jobmanager.execution.failover-strategy": "full"})

    assert env.execute("two").restarts == 1

    assert [len(attempts(tmp_path, side)) for side in ("left", "right")] == [2, 2]
    assert written(tmp_path, "left") == written(tmp_path, "right") == list(range(COUNT))


@pytest.mark.spec("003/JM-07")
@pytest.mark.processes
def test_a_part_that_fails_too_often_fails_the_job(tmp_path: Path) -> None:
    env = two_pipelines(tmp_path, raises, {"restart-strategy.type": "none"})

    with pytest.raises(
        JobFailedError, match=r"job 'two' failed and its restarts are used up: .*no such customer"
    ):
        env.execute("two")

    assert [len(attempts(tmp_path, side)) for side in ("left", "right")] == [1, 1]


@pytest.mark.processes
@pytest.mark.parametrize(
    "point",
    [
        "task.before-ack@2",
        "commit.before@2",
        *(pytest.param(p, marks=pytest.mark.crash) for p in ("sink.after-prepare@2", "commit.after@2")),
    ],
)
def test_a_part_that_dies_within_a_checkpoint_writes_everything_once(tmp_path: Path, point: str) -> None:
    armed = {"testing.faults": f"taskmanager-0/{point}", "testing.faults-dir": str(tmp_path / "witnesses")}

    assert two_pipelines(tmp_path, settings=armed).execute("two").restarts == 1

    assert list((tmp_path / "witnesses").iterdir())
    # On a busy machine the first attempt may die before its first record, so it is not counted by records.
    opened = [(tmp_path / f"{side}.opened").read_text(encoding="utf-8").split() for side in ("left", "right")]
    assert [len(processes) for processes in opened] == [2, 1]
    assert written(tmp_path, "left") == written(tmp_path, "right") == list(range(COUNT))
