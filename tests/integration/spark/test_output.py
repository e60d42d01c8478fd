"""The protocol of the sink for Structured Streaming on a real broker, crash by crash, with Spark left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.spark.topics import left_open, read
from tidegate import faults
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.kafka._wire import Wire
from tidegate.errors import CommitFailedError, ConfigError, UnavailableError
from tidegate.runtime.spark.datasource.batches import Batches, Record
from tidegate.runtime.spark.datasource.sink import Output, Written
from tidegate.testing.services import KafkaService

pytestmark = pytest.mark.service

ROWS = 40


@pytest.fixture(autouse=True)
def nothing_armed() -> Iterator[None]:
    yield
    faults.disarm()


@dataclass
class Query:
    """A query with two tasks, whose rows fall to either by chance and carry a number by chance."""

    kafka: KafkaService
    topic: str
    directory: Path
    id: str = "query"
    options: dict[str, str] = field(default_factory=dict)
    chance: Random = field(default_factory=lambda: Random(7))

    def output(self, **more: str) -> Output:
        options = {
            "connector": "kafka",
            "kafka.bootstrap.servers": self.kafka.address,
            "topic": self.topic,
            "prefix": self.topic,
            "checkpointLocation": str(self.directory),
            **self.options,
            **more,
        }
        return Output(options, ["value"])

    def write(self, batch: int, output: Output) -> list[Written]:
        rows = [
            {"id": number, "chance": self.chance.random()}
            for number in range(batch * ROWS, (batch + 1) * ROWS)
        ]
        parts: list[list[dict[str, Any]]] = [[], []]
        for row in rows:
            parts[row["chance"] < 0.5].append(row)
        return [output.write(self.id, batch, part, encoded(rows)) for part, rows in enumerate(parts)]

    def run(self, batch: int, **more: str) -> None:
        """What Spark does for a batch, as often as it has to."""
        output = self.output(**more)
        messages = self.write(batch, output)
        output.commit(self.id, batch, [each.work for each in messages if each.work is not None])

    def audit(self, batches: int) -> list[str]:
        """What is wrong with what readers of committed records see."""
        seen = Counter(row["id"] for row in read(self.kafka.address, self.topic))
        wrong = [f"row {number} is there {count} times" for number, count in seen.items() if count > 1]
        wrong += [f"row {number} is missing" for number in range(batches * ROWS) if number not in seen]
        wrong += [f"{each.transactional_id} is open" for each in left_open(self.kafka.address, self.topic)]
        return wrong

    def written(self) -> int:
        """How many rows were ever written, also those that nobody committed."""
        return len(read(self.kafka.address, self.topic, "read_uncommitted"))


def encoded(rows: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    values = [{"value": json.dumps(row)} for row in rows]
    yield pa.RecordBatch.from_pylist(values, schema=pa.schema([("value", pa.string())]))


@pytest.fixture
def query(kafka: KafkaService, tmp_path: Path) -> Query:
    return Query(kafka, kafka.new_topic(partitions=2), tmp_path)


def test_batches_are_visible_once_and_nothing_stays_open(query: Query) -> None:
    for batch in range(3):
        query.run(batch)
        query.run(batch)

    assert query.audit(3) == []
    assert query.written() == 3 * ROWS


POINTS = {
    "checkpoint.before-swap": 2,
    "checkpoint.after-swap": 1,
    "commit.before": 1,
    "commit.between": 1,
    "commit.after": 1,
    "checkpoint.before-settled": 1,
    "checkpoint.after-settled": 1,
}
"""Where the driver ends, and how often the rows of the batch are written in all."""


WITH_SPARK = ("checkpoint.before-swap", "commit.between", "checkpoint.after-settled")
"""Where a short run kills processes of Spark, so that it need not come here as well."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "point" in metafunc.fixturenames:
        long = metafunc.config.getoption("--profile") == "long"
        metafunc.parametrize("point", [each for each in POINTS if long or each not in WITH_SPARK])


def test_a_driver_that_ends_anywhere_in_a_commit_leaves_the_batch_whole(query: Query, point: str) -> None:
    query.run(0)
    with pytest.raises(faults.InjectedFaultError, match=point):
        query.run(
            1, **{"testing.faults": f"driver/{point}!raise", "testing.faults-dir": str(query.directory / "w")}
        )
    faults.disarm()
    query.run(1)
    query.run(2)

    assert query.audit(3) == []
    assert query.written() == (2 + POINTS[point]) * ROWS


def test_without_the_record_the_audit_finds_what_went_wrong(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink without its record: what every attempt prepared is committed as it comes."""
    forgotten: list[Record] = []
    """What is known until it was looked at once, which is when the batch is committed."""
    monkeypatch.setattr(Batches, "decided", lambda self, batch: forgotten.pop() if forgotten else None)
    monkeypatch.setattr(Batches, "decide", lambda self, batch, work: _noted(forgotten, batch, work))
    with pytest.raises(faults.InjectedFaultError, match=r"commit\.between"):
        query.run(
            0,
            **{
                "testing.faults": "driver/commit.between!raise",
                "testing.faults-dir": str(query.directory / "w"),
            },
        )
    faults.disarm()
    forgotten.clear()
    query.run(0)

    wrong = query.audit(1)
    assert wrong
    assert all(each.endswith("is there 2 times") for each in wrong)


def _noted(notes: list[Record], batch: int, work: Any) -> Record:
    notes.append(Record("query", batch, work, "decided"))
    return notes[-1]


def test_a_task_that_is_run_twice_takes_another_id_and_the_loser_is_aborted(query: Query) -> None:
    output = query.output()
    first = query.write(0, output)
    second = query.write(0, output)
    ids = {each.work.describe.split("'")[1] for each in (*first, *second) if each.work is not None}
    assert ids == {f"{query.topic}.0-{part}-{index}" for part in (0, 1) for index in (0, 1)}

    # Spark takes one attempt of each task; the other may have come to its end as well.
    taken = [first[0], second[1]]
    works = [each.work for each in taken if each.work is not None]
    output.commit(query.id, 0, works)

    assert len(read(query.kafka.address, query.topic)) == sum(work.records for work in works)
    assert left_open(query.kafka.address, query.topic) == []


def test_what_a_failed_batch_prepared_is_aborted_unless_it_is_decided(query: Query) -> None:
    output = query.output()
    query.write(0, output)
    assert len(left_open(query.kafka.address, query.topic)) == 2
    output.abort(query.id, 0)
    assert left_open(query.kafka.address, query.topic) == []

    with pytest.raises(faults.InjectedFaultError):
        query.run(
            0,
            **{
                "testing.faults": "driver/commit.before!raise",
                "testing.faults-dir": str(query.directory / "w"),
            },
        )
    faults.disarm()
    output.abort(query.id, 0)
    query.run(0)
    assert query.audit(1) == []


def test_a_second_query_under_the_prefix_is_refused_before_it_touches_anything(query: Query) -> None:
    with pytest.raises(faults.InjectedFaultError):
        query.run(
            0,
            **{
                "testing.faults": "driver/commit.before!raise",
                "testing.faults-dir": str(query.directory / "w"),
            },
        )
    faults.disarm()
    other = Query(query.kafka, query.topic, query.directory / "other", id="other")
    with pytest.raises(
        ConfigError,
        match=rf"transactional ids that start with '{query.topic}.0' belong to pipeline 'query', .* choose another",
    ):
        other.write(0, other.output())
    query.run(0)
    assert query.audit(1) == []


def test_two_queries_that_began_at_once_are_told_apart_before_either_decides(query: Query) -> None:
    """Both looked before either had noted its claim: the one whose note is gone is refused by its own driver."""
    output = query.output()
    works = [each.work for each in query.write(0, output) if each.work is not None]
    other = Query(query.kafka, query.topic, query.directory / "other", "other", {"take_over": "true"})
    other.write(0, other.output())
    with pytest.raises(ConfigError, match="belong to pipeline 'other'"):
        output.commit(query.id, 0, works)
    assert Batches(output._storage, query.id).decided(0) is None


def test_output_that_ran_out_before_its_commit_is_named_and_written_anew(query: Query) -> None:
    with pytest.raises(faults.InjectedFaultError):
        query.run(
            0,
            **{
                "testing.faults": "driver/commit.before!raise",
                "testing.faults-dir": str(query.directory / "w"),
            },
        )
    faults.disarm()
    run_out(query, indexes=2)
    with pytest.raises(
        CommitFailedError,
        match=r"^batch 0: its output expired before it could be committed; nothing of it is visible: sink '0' transaction .* "
        r"\(\d+ records\).*; the decision is withdrawn: start the query again, which writes the batch again$",
    ):
        query.run(0)
    query.run(0)
    assert query.audit(1) == []


def test_output_of_which_a_part_ran_out_stops_the_query_until_somebody_accepts_the_loss(query: Query) -> None:
    with pytest.raises(faults.InjectedFaultError):
        query.run(
            0,
            **{
                "testing.faults": "driver/commit.between!raise",
                "testing.faults-dir": str(query.directory / "w"),
            },
        )
    faults.disarm()
    run_out(query, indexes=2)
    for _ in range(2):
        with pytest.raises(
            CommitFailedError, match="is decided but only part of its output is visible"
        ) as failed:
            query.run(0)
        assert (
            "a query of Spark continues without the lost output by .option('accept_loss', 0)"
            in failed.value.__notes__
        )
    query.run(0, accept_loss="0")
    query.run(1)
    wrong = query.audit(2)
    assert wrong
    assert all(each.endswith("is missing") for each in wrong)


def test_attempts_without_end_are_refused_with_what_to_do(query: Query) -> None:
    output = query.output(attempts="1")
    query.write(0, output)
    with pytest.raises(
        UnavailableError,
        match=r"^batch 0 of query query: 1 attempts at part 0 failed, .* increase the option attempts$",
    ):
        query.write(0, output)


def run_out(query: Query, indexes: int) -> None:
    """Ask the broker to abort what is open, as it does by itself when a transaction runs out."""
    wire = Wire({"bootstrap.servers": query.kafka.address}, SYSTEM_CLOCK)
    assert wire.fence([each.key for each in left_open(query.kafka.address, query.topic)]) == []
    wire.close()
