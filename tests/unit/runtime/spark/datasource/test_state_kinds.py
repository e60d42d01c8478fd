"""Every kind of state that is kept by key as a table of Spark, from checkpoints and savepoints, with Spark left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.storage import StorageFiles
from tidegate.common import Types
from tidegate.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
)
from tidegate.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.runtime.checkpoint.savepoint import open_settled, write_savepoint
from tidegate.runtime.options import SavepointFormat
from tidegate.runtime.spark.datasource import StateDataSource

NUMBERS = range(12)
LATER = 2**50


class Added(ReduceFunction):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class Average(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Kept(KeyedProcessFunction):
    """Keeps what it sees in every kind of state."""

    def open(self, runtime_context: Any) -> None:
        long, of = Types.LONG(), runtime_context
        self.count = of.get_state(ValueStateDescriptor("count", long, 0))
        self.list = of.get_list_state(ListStateDescriptor("list", long))
        self.map = of.get_map_state(MapStateDescriptor("map", Types.STRING(), long))
        self.sum = of.get_reducing_state(ReducingStateDescriptor("sum", Added(), long))
        pair = Types.TUPLE([long, long])
        self.average = of.get_aggregating_state(AggregatingStateDescriptor("average", Average(), pair))

    def process_element(self, value: int, ctx: Any) -> None:
        self.count.update(self.count.value() + 1)
        self.list.add(value)
        self.map.put(f"third {value % 3}", value)
        self.sum.add(value)
        self.average.add(value)
        ctx.timer_service().register_processing_time_timer(LATER + value % 2)


def checkpoint(directory: Path, settings: dict[str, Any]) -> Path:
    """The last checkpoint of a program of two keys; at parallelism 2 one subtask may have none."""
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "parallelism.default": 2,
            "pipeline.progress": "off",
            "state.checkpoints.dir": str(directory),
            **settings,
        }
    )
    env.from_collection(NUMBERS).key_by(lambda n: n % 2).process(Kept()).uid("kept").print()
    result = env.execute("kept")
    return directory / result.run / f"chk-{result.checkpoint}"


def rows(place: Path, **options: str) -> list[dict[str, Any]]:
    source = StateDataSource({"path": str(place), **options})
    reader = source.reader(source.schema())
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize("form", [None, "native", "canonical"], ids=["checkpoint", "native", "canonical"])
@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
def test_every_kind_of_state_is_a_table(tmp_path: Path, backend: str, form: SavepointFormat | None) -> None:
    place = checkpoint(tmp_path / "state", {"state.backend.type": backend})
    if form is not None:
        found = open_settled(place)
        place = tmp_path / "savepoint"
        write_savepoint(found.manifest, StorageFiles(found.storage.blobs, ""), place, backend, form)

    def by_key(state: str, column: str = "value") -> dict[int, list[Any]]:
        told: dict[int, list[Any]] = {0: [], 1: []}
        for row in rows(place, state=state):
            told[row["key"]].append(row[column])
        return told

    even, odd = [n for n in NUMBERS if n % 2 == 0], [n for n in NUMBERS if n % 2]
    assert by_key("count") == {0: [6], 1: [6]}
    assert by_key("list") == {0: even, 1: odd}
    assert by_key("list", "position") == {0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 3, 4, 5]}
    mapped = {(row["key"], row["map_key"]): row["value"] for row in rows(place, state="map")}
    assert mapped == {(n % 2, f"third {n % 3}"): n for n in NUMBERS}
    assert by_key("sum") == {0: [sum(even)], 1: [sum(odd)]}
    assert [[tuple(each) for each in by_key("average")[key]] for key in (0, 1)] == [
        [(sum(even), 6)],
        [(sum(odd), 6)],
    ]
    timers = {(row["key"], row["time"]) for row in rows(place, timers="processing")}
    assert timers == {(0, LATER), (1, LATER + 1)}
