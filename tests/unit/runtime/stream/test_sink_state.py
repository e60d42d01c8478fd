"""State of sink functions: what a buffering sink has not written is kept, dealt anew at another parallelism, and shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    CheckpointedFunction,
    DataStream,
    ListStateDescriptor,
    MapFunction,
    SinkFunction,
    StreamExecutionEnvironment,
    state,
)
from tidegate.state_reader import StateReader
from tidegate.types import Types

BUFFERED = ListStateDescriptor("buffered-elements", Types.STRING())


class BufferingSink(SinkFunction, CheckpointedFunction):
    """Writes as many lines as the threshold at once; what it holds meanwhile is operator state."""

    def __init__(self, directory: Path, threshold: int = 0, *, union: bool = False) -> None:
        self.directory = str(directory)
        self.threshold = threshold
        self.union = union
        self.buffered: list[str] = []

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.stored = store.get_union_list_state(BUFFERED) if self.union else store.get_list_state(BUFFERED)
        if context.is_restored():
            self.buffered = list(self.stored)

    def open(self, runtime_context: Any) -> None:
        index = runtime_context.get_index_of_this_subtask()
        self.note("restored", index, self.buffered)

    def invoke(self, value: str, context: Any) -> None:
        self.buffered.append(value)
        if len(self.buffered) == self.threshold:
            self.note("flushed", self.buffered)
            self.buffered = []

    def snapshot_state(self, context: Any) -> None:
        self.stored.clear()
        self.stored.add_all(self.buffered)

    def note(self, *what: Any) -> None:
        with (Path(self.directory) / "noted").open("a") as file:
            file.write(json.dumps(what) + "\n")


def noted(directory: Path) -> list[list[Any]]:
    lines = (directory / "noted").read_text().splitlines()
    (directory / "noted").unlink()
    return [json.loads(line) for line in lines]


def flushed(what: Iterable[list[Any]]) -> list[list[str]]:
    return [each[1] for each in what if each[0] == "flushed"]


@pytest.fixture
def run(anywhere: StreamExecutionEnvironment, tmp_path: Path) -> Callable[..., list[Any]]:
    """Writes records to a sink function; each run restores the checkpoint of the one before. Answers what it noted."""
    places: list[Path] = []

    def one(records: list[str], sink: SinkFunction, parallelism: int = 1, keyed: bool = False) -> list[Any]:
        root = tmp_path / str(len(places))
        anywhere.configure(
            {
                "state.checkpoints.dir": str(root),
                "execution.savepoint.ignore-unclaimed-state": bool(places),
                **({"execution.savepoint.path": str(places[-1])} if places else {}),
            }
        )
        source = anywhere.from_collection(records).set_parallelism(1).uid(f"in {len(places)}")
        stream: DataStream = source.key_by(lambda value: value) if keyed else source
        stream.add_sink(sink).set_parallelism(parallelism).uid("sink")
        anywhere.execute(f"run {len(places)}")
        places.append(max(root.glob("*/chk-*"), key=lambda path: int(path.name.removeprefix("chk-"))))
        return noted(tmp_path)

    return one


@pytest.mark.spec("002/AX-41")
def test_a_buffering_sink_flushes_what_it_held_with_what_comes_after_a_restore(
    run: Callable[..., list[Any]], tmp_path: Path
) -> None:
    assert flushed(run(["a", "b", "c"], BufferingSink(tmp_path, 2))) == [["a", "b"]]
    place = max((tmp_path / "0").glob("*/chk-*"), key=lambda path: int(path.name.removeprefix("chk-")))
    with StateReader(place) as reader:
        assert reader.unkeyed_table("sink", "buffered-elements")["value"].to_pylist() == ["c"]

    after = run(["d"], BufferingSink(tmp_path, 2))

    assert ["restored", 0, ["c"]] in after
    assert flushed(after) == [["c", "d"]]
    assert flushed(run(["a", "b", "c"], BufferingSink(tmp_path))) == []


@pytest.mark.parametrize(
    ("union", "shares"),
    [(False, [["1"], ["2"]]), (True, [["1", "2"], ["1", "2"]])],
    ids=["even split", "union"],
)
def test_what_a_sink_holds_is_dealt_to_more_subtasks(
    run: Callable[..., list[Any]], tmp_path: Path, union: bool, shares: list[list[str]]
) -> None:
    run(["1", "2"], BufferingSink(tmp_path, union=union))

    after = run([], BufferingSink(tmp_path, union=union), parallelism=2)

    assert sorted(after) == [["restored", index, share] for index, share in enumerate(shares)]


class Fails(MapFunction):
    """Fails once, at a record behind a checkpoint."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)

    def map(self, value: int) -> str:
        failed = Path(self.directory) / "failed"
        if value == 730 and not failed.exists():
            failed.touch()
            raise OSError("once")
        return str(value)


def test_a_buffering_sink_loses_nothing_in_a_failure(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    anywhere.configure(
        {
            "execution.checkpointing.interval": "20 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 1,
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    )
    if anywhere._settings["execution.target"].startswith("local"):
        anywhere.configure({"execution.spark.epoch-records": 150})
    source = GeneratorSource(lambda number: number, 1_000, rate_per_second=2_000.0, splits=1)
    stream = anywhere.from_source(source).set_parallelism(1).map(Fails(tmp_path)).set_parallelism(1)
    stream.add_sink(BufferingSink(tmp_path, 100)).set_parallelism(1)

    anywhere.execute()

    found = noted(tmp_path)
    held = [each[2] for each in found if each[0] == "restored"]
    assert len(held) >= 2
    assert {value for batch in flushed(found) for value in batch} == set(map(str, range(1_000)))


class Tally(SinkFunction):
    """Counts the records of each key, in state of the key."""

    seen = state.Value(int, default=0)

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)

    def invoke(self, value: str, context: Any) -> None:
        self.seen.update(self.seen.value() + 1)
        BufferingSink.note(self, value, self.seen.value())  # type: ignore[arg-type] # has a directory, too


@pytest.mark.parametrize(
    ("backend", "mode"),
    [("heap", "STREAMING"), ("filesystem", "STREAMING"), ("rocksdb", "STREAMING"), ("heap", "BATCH")],
)
def test_a_sink_behind_key_by_keeps_state_of_keys(
    anywhere: StreamExecutionEnvironment,
    run: Callable[..., list[Any]],
    tmp_path: Path,
    backend: str,
    mode: str,
) -> None:
    anywhere.configure({"state.backend.type": backend, "execution.runtime-mode": mode})
    first = run(list("abcaa"), Tally(tmp_path), parallelism=2, keyed=True)
    assert sorted(first) == [["a", 1], ["a", 2], ["a", 3], ["b", 1], ["c", 1]]

    if mode == "STREAMING":
        assert sorted(run(list("abd"), Tally(tmp_path), 3, keyed=True)) == [["a", 4], ["b", 2], ["d", 1]]


def test_what_a_sink_holds_can_be_looked_into(
    anywhere: StreamExecutionEnvironment, run: Callable[..., list[Any]], tmp_path: Path
) -> None:
    run(["a", "b", "c"], BufferingSink(tmp_path, 2))
    place = max((tmp_path / "0").glob("*/chk-*"), key=lambda path: int(path.name.removeprefix("chk-")))

    with StateReader(place) as reader:
        assert reader.unkeyed() == {"sink": ("buffered-elements",)}
        assert reader.unkeyed_table("sink", "buffered-elements")["value"].to_pylist() == ["c"]
