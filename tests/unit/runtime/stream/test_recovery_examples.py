"""Page views counted from a log with positions: what a checkpoint holds, and what is read again after a failure."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.waiting import until
from tidegate.backends.storage import LocalStorage
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.base import RangeReader, RangeSplit
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import NotYet, Poll, ReaderContext
from tidegate.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment, state
from tidegate.ids import CheckpointId, LineageId, PipelineId, RunId
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.checkpoint.savepoint import open_snapshot
from tidegate.runtime.client import JobClient
from tidegate.state_reader import StateReader

MESSAGES, FATAL = 1_500, 1_400
LOGS = ["app1"] * 50 + ["app2"] * 10
"""What each message of the log carries, so that 1,000 of them make 50,000 and 10,000 views."""


@dataclass(frozen=True)
class Topic(GeneratorSource[int]):
    """A log of one partition, read up to each of some offsets and no further before a checkpoint of it is settled."""

    gates: tuple[int, ...] = ()
    directory: str = ""

    def open_reader(self, context: ReaderContext) -> RangeReader:
        return _Gated(self, self._read)


class _Gated(RangeReader):
    def __init__(self, topic: Topic, read: Any) -> None:
        super().__init__(read)
        self._directory = Path(topic.directory)
        self._gates = list(topic.gates)
        self._at = 0

    def add_splits(self, splits: Sequence[RangeSplit]) -> None:
        for split in splits:
            self._at = split.next
            with (self._directory / "begun").open("a") as file:
                file.write(f"{split.next}\n")
        self._gates = [gate for gate in self._gates if gate > self._at]
        super().add_splits(splits)

    def poll(self, limit: int) -> Poll:
        if self._gates and self._at == self._gates[0]:
            (self._directory / f"at-{self._at}").touch()
            return NotYet()
        found = super().poll(min(limit, self._gates[0] - self._at) if self._gates else limit)
        self._at = min((split.next for split in super().snapshot(CheckpointId(0))), default=MESSAGES)
        return found

    def settled(self, checkpoint: CheckpointId) -> None:
        self._gates = [gate for gate in self._gates if gate > self._at]


class FailsOnce(MapFunction):
    """Ends its process at a message, the first time; where all run in one, it raises."""

    def __init__(self, directory: Path, kill: bool) -> None:
        self._marker, self._kill = directory / "failed", kill

    def map(self, value: int) -> int:
        if value == FATAL and not self._marker.exists():
            self._marker.touch()
            if self._kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("this once")
        return value


class Views(KeyedProcessFunction):
    pv = state.Value(int, default=0)

    def process_element(self, value: str, ctx: Any) -> Iterator[list[Any]]:
        self.pv.update(self.pv.value() + 1)
        if self.pv.value() % 5_000 == 0:
            yield [value, self.pv.value()]


@pytest.fixture(params=["inline", "embedded-2", "embedded-3"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    target, _, parallelism = request.param.partition("-")
    return {
        "execution.target": target,
        "parallelism.default": int(parallelism or 2),
        "pipeline.progress": "off",
        "execution.checkpointing.interval": "1 h",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "state.checkpoints.dir": str(tmp_path / "state"),
        "state.savepoints.dir": str(tmp_path / "savepoints"),
    }


def start(settings: dict[str, Any], directory: Path, *gates: int, logs: Sequence[str] = LOGS) -> JobClient:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    topic = Topic(int, count=MESSAGES, gates=gates, directory=str(directory))
    messages = env.from_source(topic).uid("topic").set_parallelism(1)
    messages = messages.map(FailsOnce(directory, settings["execution.target"] == "embedded"))
    views = messages.flat_map(lambda message: logs).key_by(lambda app: app).process(Views()).uid("pv")
    views.sink_to(FileSink(str(directory / "out"))).uid("files")
    return env.execute_async("views")


def number_from(root: Path, first: int) -> None:
    """Let the first checkpoint of the pipeline have a number."""
    pipeline = Pipeline(LocalStorage(root), PipelineId("views"), RunId("before"), SYSTEM_CLOCK)
    pipeline.acquire(lambda: LineageId("lineage"), fresh=False, say=print)
    pipeline.use(CheckpointId(first))
    pipeline.leave("stopped")


def checkpoint_at(client: JobClient, directory: Path, offset: int) -> str:
    """Take a checkpoint, as a savepoint, once the source has come to an offset."""
    until((directory / f"at-{offset}").exists, job=client)
    return client.trigger_savepoint().result(timeout=60)


def views(place: Path | str) -> dict[str, int]:
    with StateReader(place) as reader:
        table = reader.table("pv", "pv")
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def offsets(place: Path) -> list[int]:
    (source,) = [operator for operator in open_snapshot(place).manifest.operators if operator.splits]
    return [msgspec.msgpack.decode(split, type=RangeSplit).next for split in source.splits]


def begun(directory: Path) -> list[int]:
    return [int(line) for line in (directory / "begun").read_text().split()]


@pytest.mark.spec("004/EOS-016")
@pytest.mark.spec(
    "004/AX-019", "004/AX-020", "000/STATE-04", "000/STATE-05", "000/STATE-11", "004/EOS-004", "004/EOS-015"
)
@pytest.mark.spec("004/BAR-004", "003/FT-07", "003/FT-09")
def test_checkpoint_100_holds_offset_and_views_and_is_where_a_killed_job_goes_on(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    number_from(tmp_path / "state", 100)
    client = start(settings, tmp_path, 1_000)
    savepoint = checkpoint_at(client, tmp_path, 1_000)
    result = client.get_job_execution_result().result(timeout=120)

    (kept,) = (tmp_path / "state" / result.run).glob("chk-100")
    assert offsets(kept) == [1_000], "the barrier is not behind the thousandth message"
    assert views(kept) == views(savepoint) == {"app1": 50_000, "app2": 10_000}
    assert (tmp_path / "failed").exists()
    assert begun(tmp_path) == [0, 1_000], "it does not go on with message 1,001"
    assert (result.restarts, result.state) == (1, "finished")
    assert views(kept.with_name(f"chk-{result.checkpoint}")) == {"app1": 75_000, "app2": 15_000}
    assert sorted(written(tmp_path / "out")) == sorted(without_failure())


@pytest.mark.spec("004/AX-019")
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_on_spark_the_epoch_of_a_thousand_messages_is_checkpoint_100_and_the_next_one_begins_behind_it_again(
    tmp_path: Path,
) -> None:
    number_from(tmp_path / "state", 100)
    settings = {
        "execution.target": "local[2]",
        "execution.spark.epoch-records": 1_000,
        "parallelism.default": 2,
        "pipeline.progress": "off",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "state.checkpoints.dir": str(tmp_path / "state"),
    }
    result = start(settings, tmp_path).get_job_execution_result().result(timeout=120)

    (kept,) = (tmp_path / "state" / result.run).glob("chk-100")
    assert offsets(kept) == [1_000]
    assert views(kept) == {"app1": 50_000, "app2": 10_000}
    assert (tmp_path / "failed").exists()
    assert begun(tmp_path)[:3] == [0, 1_000, 1_000]
    assert (result.restarts, result.state) == (1, "finished")
    assert views(kept.with_name(f"chk-{result.checkpoint}")) == {"app1": 75_000, "app2": 15_000}
    assert sorted(written(tmp_path / "out")) == sorted(without_failure())


@pytest.mark.spec("000/STATE-07")
def test_more_checkpoints_cost_more_and_leave_less_to_read_again(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    read_again = {}
    for gates in ((1_000,), (500, 1_000, 1_300)):
        directory = tmp_path / str(len(gates))
        directory.mkdir()
        mine = {**settings, "state.checkpoints.dir": str(directory / "state")}
        client = start(mine, directory, *gates, logs=["app1"])
        for gate in gates:
            checkpoint_at(client, directory, gate)
        result = client.get_job_execution_result().result(timeout=120)
        taken = list((directory / "state" / result.run).glob("chk-*/_metadata"))
        assert len(taken) == len(gates) + 1
        read_again[len(gates)] = FATAL - begun(directory)[-1]

    assert read_again == {1: 400, 3: 100}


@pytest.mark.spec("004/AX-029", "000/STATE-06")
def test_a_new_run_goes_on_from_whichever_checkpoint_is_chosen(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    number_from(tmp_path / "state", 50)
    client = start(settings, tmp_path, 500, 1_000, 1_300, logs=["app1"])
    for gate in (500, 1_000, 1_300):
        checkpoint_at(client, tmp_path, gate)
    first = client.get_job_execution_result().result(timeout=120)

    for number, offset in ((50, 500), (52, 1_300), (51, 1_000)):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "failed").touch()
        chosen = tmp_path / "state" / first.run / f"chk-{number}" / "_metadata"
        again = {"pipeline.id": f"again-{number}", "execution.savepoint.path": str(chosen)}
        second = start({**settings, **again}, directory, logs=["app1"]).get_job_execution_result()
        result = second.result(timeout=120)

        assert result.run != first.run
        assert begun(directory) == [offset]
        newest = tmp_path / "state" / result.run / f"chk-{result.checkpoint}"
        assert views(newest) == {"app1": MESSAGES}


def without_failure() -> list[tuple[str, int]]:
    totals = {"app1": 75_000, "app2": 15_000}
    return [(app, views) for app, total in totals.items() for views in range(5_000, total + 1, 5_000)]


def written(output: Path) -> list[tuple[str, int]]:
    lines = [line for path in output.glob("part-*") for line in path.read_text().splitlines()]
    return [(app, pv) for app, pv in map(json.loads, lines)]
