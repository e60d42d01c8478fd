"""States of a checkpoint as a table of Spark, with Spark left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.errors import ConfigError, RecordError
from tidegate.runtime.spark.datasource import StateDataSource

EXPECTED = {f"user {number}": number + number + 10 for number in range(10)}


class Totals(KeyedProcessFunction):
    """A sum of each key, how many there were, and a timer that stays."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", default=0))
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value: int, ctx: Any) -> None:
        self.sum.update(self.sum.value() + value)
        self.count.update(self.count.value() + 1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("state")
    settings = {
        "execution.target": "inline",
        "parallelism.default": 2,
        "pipeline.progress": "off",
        "state.checkpoints.dir": str(root),
    }
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    users = env.from_collection(range(20)).key_by(lambda number: f"user {number % 10}")
    users.process(Totals()).uid("totals").filter(lambda _: False).print()
    env.execute("totals")
    *_, newest = sorted(Path(root).glob("*/chk-*"))
    return str(newest)


def read(schema: StructType | None = None, **options: str) -> list[list[dict[str, Any]]]:
    source = StateDataSource(options)
    reader = source.reader(schema or source.schema())
    return [[row for batch in reader.read(part) for row in batch.to_pylist()] for part in reader.partitions()]


def test_every_range_of_key_groups_is_a_part_and_all_keys_are_there_once(checkpoint: str) -> None:
    parts = read(path=checkpoint, uid="totals", state="sum")

    assert len(parts) == 2
    rows = [row for part in parts for row in part]
    assert len(rows) == len(EXPECTED)
    assert {row["key"]: row["value"] for row in rows} == EXPECTED
    ranges = [{row["key_group"] for row in part} for part in parts]
    assert max(ranges[0]) < min(ranges[1])


def test_types_are_those_of_the_records_or_as_asked_for(checkpoint: str) -> None:
    found = StateDataSource({"path": checkpoint, "state": "sum"}).schema()
    assert {field.name: field.dataType for field in found}["key"] == StringType()
    assert {field.name: field.dataType for field in found}["value"] == LongType()

    asked = StructType().add("value", StringType()).add("key", StringType())
    rows = [row for part in read(asked, path=checkpoint, state="sum") for row in part]
    assert {row["key"]: row["value"] for row in rows} == {key: str(value) for key, value in EXPECTED.items()}
    with pytest.raises(
        RecordError, match=r"^key groups .* hold records of other types \(.*\); set types that match all by"
    ):
        read(StructType().add("key", LongType()), path=checkpoint, state="sum")


def test_timers_are_a_table_too(checkpoint: str) -> None:
    assert read(path=checkpoint, uid="totals", timers="event") == [[], []]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {},
            r"^tidegate-state needs a checkpoint; got none; expected .load\('<root>/<run>/chk-<n>'\) or a savepoint$",
        ),
        (
            {"path": "x", "stat": "sum"},
            r"^unknown option 'stat' in the options of tidegate-state; did you mean 'state'",
        ),
        (
            {"path": "CHECKPOINT"},
            r"^operator 'totals' has the states count, sum; expected one of them by the option state",
        ),
        ({"path": "CHECKPOINT", "uid": "x"}, r"has no keyed state of operator 'x'; known are totals$"),
    ],
    ids=["no path", "unknown", "several", "no such operator"],
)
def test_what_is_not_said_well_is_refused(checkpoint: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(**{key: value.replace("CHECKPOINT", checkpoint) for key, value in options.items()})
