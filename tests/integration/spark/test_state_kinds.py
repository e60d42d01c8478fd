"""Every kind of state goes from one executor to the other, at another parallelism and with another backend."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from tests.integration.spark.conftest import SPARK_ONLY
from tidegate.backends.storage.files import StorageFiles
from tidegate.common import Types
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    AggregateFunction,
    CheckpointedFunction,
    KeyedProcessFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
)
from tidegate.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    OrderedMapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.runtime.checkpoint.savepoint import open_settled, write_savepoint

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), SPARK_ONLY]

KEYS, BEFORE, ALL = 20, 300, 400


@pytest.fixture(autouse=True)
def functions_travel_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Executors cannot import test modules."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


class Added(ReduceFunction):
    """A sum."""

    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class Average(AggregateFunction):
    """An average."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Kept(KeyedProcessFunction, CheckpointedFunction):
    """Keeps what it sees in every kind of state, and tells of each record what all of them hold."""

    def __init__(self, *, adds: bool) -> None:
        self.adds = adds

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.listed = store.get_list_state(ListStateDescriptor("listed", Types.LONG()))
        self.united = store.get_union_list_state(ListStateDescriptor("united", Types.LONG()))
        self.broadcast = store.get_broadcast_state(
            MapStateDescriptor("broadcast", Types.STRING(), Types.LONG())
        )

    def snapshot_state(self, context: Any) -> None:
        pass

    def open(self, runtime_context: Any) -> None:
        long, of = Types.LONG(), runtime_context
        self.subtask = of.get_index_of_this_subtask()
        self.value = of.get_state(ValueStateDescriptor("value", long, 0))
        self.list = of.get_list_state(ListStateDescriptor("list", long))
        self.map = of.get_map_state(MapStateDescriptor("map", Types.STRING(), long))
        self.ordered = of.get_ordered_map_state(OrderedMapStateDescriptor("ordered", long, long))
        self.reduced = of.get_reducing_state(ReducingStateDescriptor("reduced", Added(), long))
        pair = Types.TUPLE([long, long])
        self.averaged = of.get_aggregating_state(AggregatingStateDescriptor("averaged", Average(), pair))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.value.update(self.value.value() + 1)
        self.list.add(value)
        self.map.put(str(value % 3), value)
        self.ordered.put(-value, value)
        self.reduced.add(value)
        self.averaged.add(value)
        if self.adds:
            self.listed.add(value)
            self.united.add(value)
            self.broadcast.put("rule", 7)
        mine = sorted([name, number] for name, number in self.map.items())
        assert [number for _, number in self.ordered.range(reverse=True)] == sorted(self.list.get())
        held = [self.value.value(), list(self.list.get()), mine, self.reduced.get(), self.averaged.get()]
        everybody = [sorted(self.united.get()), dict(self.broadcast.items())]
        yield [ctx.get_current_key(), held, self.subtask, list(self.listed.get()), everybody]


def run(directory: Path, numbers: range, settings: dict[str, Any]) -> tuple[list[Any], Path]:
    """What is told of some numbers, and the last checkpoint."""
    root, out = directory / "state", directory / f"out-{numbers.start}"
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "pipeline.progress": "off",
            "execution.spark.epoch-records": 60,
            "execution.checkpointing.interval": "50 ms",
            "state.checkpoints.dir": str(root),
            **settings,
        }
    )
    begin = numbers.start
    source = GeneratorSource(lambda number: begin + number, count=len(numbers), splits=2)
    stream = env.from_source(source).uid(f"numbers from {begin}").set_parallelism(2)
    told = stream.key_by(lambda number: number % KEYS).process(Kept(adds=begin == 0)).uid("kept")
    told.sink_to(FileSink(str(out))).uid(f"out {begin}")
    result = env.execute(f"kept from {begin}")
    rows = [json.loads(line) for part in out.glob("part-*") for line in part.read_text().splitlines()]
    return rows, root / result.run / f"chk-{result.checkpoint}"


@pytest.mark.parametrize("form", ["checkpoint", "canonical"])
@pytest.mark.parametrize(
    ("first", "then", "backends"),
    [("local[2]", "inline", ("heap", "rocksdb")), ("inline", "local[2]", ("rocksdb", "filesystem"))],
    ids=["from-spark", "to-spark"],
)
def test_every_kind_of_state_changes_executor_parallelism_and_backend(
    tmp_path: Path, first: str, then: str, backends: tuple[str, str], form: str
) -> None:
    began = {"execution.target": first, "parallelism.default": 2, "state.backend.type": backends[0]}
    _, place = run(tmp_path, range(BEFORE), began)
    if form == "canonical":
        found = open_settled(place)
        place = tmp_path / "savepoint"
        write_savepoint(
            found.manifest, StorageFiles(found.storage.blobs, ""), place, "filesystem", "canonical"
        )
    rows, _ = run(
        tmp_path,
        range(BEFORE, ALL),
        {
            "execution.target": then,
            "parallelism.default": 3,
            "state.backend.type": backends[1],
            "execution.savepoint.path": str(place),
            "execution.savepoint.ignore-unclaimed-state": True,
        },
    )

    assert len(rows) == ALL - BEFORE
    check_keyed(rows)
    check_operators(rows)


def check_keyed(rows: list[Any]) -> None:
    """Each key holds everything it ever saw."""
    seen: dict[int, list[int]] = defaultdict(list)
    for number in range(ALL):
        seen[number % KEYS].append(number)
    last = {key: held for key, held, *_ in sorted(rows, key=lambda row: row[1][0])}
    assert set(last) == set(range(KEYS))
    for key, (count, listed, mapped, reduced, averaged) in last.items():
        numbers = seen[key]
        assert (count, sorted(listed), reduced) == (len(numbers), numbers, sum(numbers))
        assert averaged == sum(numbers) / len(numbers)
        assert {name for name, _ in mapped} == {str(number % 3) for number in numbers}
        assert all(str(number % 3) == name for name, number in mapped)


def check_operators(rows: list[Any]) -> None:
    """Lists are dealt to three subtasks, united and broadcast ones are with all of them."""
    shares = {subtask: tuple(listed) for _, _, subtask, listed, _ in rows}
    assert len(shares) == 3
    assert Counter(number for share in shares.values() for number in share) == Counter(range(BEFORE))
    assert all(everybody == [list(range(BEFORE)), {"rule": 7}] for *_, everybody in rows)
