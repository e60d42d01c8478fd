"""Files that Structured Streaming writes, crash by crash, with Spark left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType

from tidegate import faults
from tidegate.connectors.files import FileSink
from tidegate.connectors.files.rows import FileRows
from tidegate.connectors.print import PrintSink
from tidegate.errors import ConfigError, UnavailableError
from tidegate.ids import CheckpointId
from tidegate.runtime.spark.datasource import TidegateDataSource
from tidegate.runtime.spark.datasource.batches import Batches, Record
from tidegate.runtime.spark.datasource.sink import Output, StreamWriter, TableWriter, Written
from tidegate.twophase.spi import Committable

ROWS = 20
ID = pa.schema([("id", pa.int64()), ("chance", pa.float64())])
POINTS = [
    "checkpoint.before-swap",
    "checkpoint.after-swap",
    "commit.before",
    "commit.between",
    "commit.after",
    "checkpoint.before-settled",
    "checkpoint.after-settled",
]


@pytest.fixture(autouse=True)
def nothing_armed() -> Iterator[None]:
    yield
    faults.disarm()


@dataclass
class Query:
    """A query with two tasks, whose rows fall to either by chance."""

    directory: Path
    chance: Random = field(default_factory=lambda: Random(7))

    def options(self, **more: str) -> dict[str, str]:
        place = {
            "path": str(self.directory / "out"),
            "checkpointLocation": str(self.directory / "checkpoint"),
        }
        return {"connector": "files", **place, **more}

    def write(self, batch: int, output: Output) -> list[Written]:
        parts: list[list[dict[str, Any]]] = [[], []]
        for number in range(batch * ROWS, (batch + 1) * ROWS):
            chance = self.chance.random()
            parts[chance < 0.5].append({"id": number, "chance": chance})
        return [output.write("query", batch, part, iter(encoded(rows))) for part, rows in enumerate(parts)]

    def run(self, batch: int, **more: str) -> None:
        output = Output(self.options(**more), ID.names)
        works = [each.work for each in self.write(batch, output)]
        output.commit("query", batch, [work for work in works if work is not None])

    def stop_at(self, batch: int, point: str) -> None:
        witnesses = str(self.directory / "witnesses")
        with pytest.raises(faults.InjectedFaultError, match=point):
            self.run(batch, **{"testing.faults": f"driver/{point}!raise", "testing.faults-dir": witnesses})
        faults.disarm()

    def audit(self, batches: int) -> list[str]:
        files = self.directory.glob("out/part-*")
        seen = Counter(json.loads(line)["id"] for file in files for line in file.read_text().splitlines())
        wrong = [f"row {number} is there {count} times" for number, count in seen.items() if count > 1]
        return wrong + [f"row {number} is missing" for number in range(batches * ROWS) if number not in seen]

    def hidden(self) -> list[str]:
        return [path.name for path in self.directory.glob("out/.tidegate/*/*") if path.name != "claim"]


def encoded(rows: list[dict[str, Any]]) -> list[pa.RecordBatch]:
    """Two batches and an empty one."""
    halves = rows[: len(rows) // 2], rows[len(rows) // 2 :], list[Any]()
    return [pa.RecordBatch.from_pylist(half, schema=ID) for half in halves]


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path)


@pytest.mark.parametrize("point", POINTS)
def test_a_driver_that_ends_anywhere_in_a_commit_leaves_the_batch_whole(query: Query, point: str) -> None:
    query.run(0)
    query.stop_at(1, point)
    query.run(1)
    query.run(2)

    assert query.audit(3) == []
    assert query.hidden() == []


def test_without_the_record_the_audit_finds_what_went_wrong(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink without its record: what the new attempt prepared is committed beside what the old one did."""
    monkeypatch.setattr(Batches, "decided", lambda self, batch: None)
    monkeypatch.setattr(Batches, "decide", lambda self, batch, work: Record("query", batch, work, "decided"))
    query.stop_at(0, "commit.between")
    with pytest.raises(Exception, match="is unknown whether"):
        query.run(0)
    assert query.audit(1)


def test_an_attempt_that_lost_leaves_nothing_behind(query: Query) -> None:
    output = Output(query.options(), ID.names)
    first, second = query.write(0, output), query.write(0, output)
    assert len(query.hidden()) == 4
    taken = [first[0].work, second[1].work]
    output.commit("query", 0, [work for work in taken if work is not None])

    assert query.hidden() == []


def test_a_failed_batch_is_removed_and_a_decided_one_is_not(query: Query) -> None:
    output = Output(query.options(), ID.names)
    query.write(0, output)
    output.abort("query", 0)
    assert query.hidden() == []
    query.stop_at(0, "commit.before")
    output.abort("query", 0)
    query.run(0)
    assert query.audit(1) == []


def test_an_attempt_that_slept_through_its_batch_writes_nothing(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look at the record and its claim the batch was decided, settled and forgotten by others."""
    claim = Batches.claim

    def overtaken(self: Batches, batch: int, *, part: int, most: int) -> int:
        monkeypatch.setattr(Batches, "claim", claim)
        query.run(0)
        return claim(self, batch, part=part, most=most)

    monkeypatch.setattr(Batches, "claim", overtaken)
    late = Output(query.options(), ID.names).write("query", 0, 0, iter(encoded([{"id": 0, "chance": 0.1}])))

    assert late.work is None
    assert query.audit(1) == []
    assert query.hidden() == []


def test_empty_parts_prepare_nothing_and_an_empty_batch_is_decided_too(query: Query) -> None:
    output = Output(query.options(), ID.names)
    assert output.write("query", 0, 0, iter(encoded([]))).work is None
    output.commit("query", 0, [])
    found = Batches(output._storage, "query").decided(0)
    assert found is not None
    assert found.state == "settled"


def test_messages_of_tasks_that_failed_are_passed_over(query: Query) -> None:
    writer = StreamWriter(query.options(), ID.names)
    works = query.write(0, Output(query.options(), ID.names))
    writer.abort([None, None], 0)
    assert len(query.hidden()) == 2
    writer.abort([None, works[1]], 0)
    assert query.hidden() == []
    again = query.write(0, Output(query.options(), ID.names))
    writer.commit([*again], 0)
    assert query.audit(1) == []


def test_a_write_that_is_no_stream_is_known_by_its_name(query: Query) -> None:
    with pytest.raises(
        ConfigError, match=r"^a write that is not a stream needs an id by which a repeated run is rec"
    ):
        TableWriter(query.options(), ID.names)
    output = Output(query.options(), ID.names)
    writer = TableWriter(query.options(id="monday"), ID.names)
    for _ in range(2):
        parts = [output.write("monday", 0, 0, iter(encoded([{"id": n, "chance": 0.1} for n in range(ROWS)])))]
        writer.commit([*parts])
    assert query.audit(1) == []
    other = [output.write("tuesday", 0, 0, iter(encoded([{"id": 99, "chance": 0.1}])))]
    TableWriter(query.options(id="tuesday"), ID.names).abort([*other])
    assert query.hidden() == []


def test_nothing_is_replaced(query: Query) -> None:
    schema = StructType().add("id", LongType())
    with pytest.raises(
        ConfigError, match=r"^this sink only appends; got mode overwrite; expected .mode\('ap"
    ):
        TidegateDataSource(query.options(id="monday")).writer(schema, overwrite=True)
    assert isinstance(
        TidegateDataSource(query.options(id="monday")).writer(schema, overwrite=False), TableWriter
    )
    assert isinstance(TidegateDataSource(query.options()).streamWriter(schema, overwrite=True), StreamWriter)


def test_a_sink_is_asked_before_the_decision_and_may_refuse(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FileSink, checkpoint: CheckpointId, committables: Sequence[Committable]) -> None:
        raise UnavailableError(f"batch {checkpoint} with {len(committables)} files comes too early")

    monkeypatch.setattr(FileSink, "pre_commit", refuse, raising=False)
    with pytest.raises(UnavailableError, match="batch 0 with 2 files comes too early"):
        query.run(0)
    assert Batches(Output(query.options(), ID.names)._storage, "query").decided(0) is None
    monkeypatch.undo()
    query.run(0)
    assert query.audit(1) == []


def test_a_sink_that_does_not_commit_in_two_phases_is_refused(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileRows, "sink", lambda self, options, lane, columns: PrintSink())
    with pytest.raises(
        ConfigError, match=r"^connector 'files' does not commit in two phases with these options, so its"
    ):
        Output(query.options(), ID.names)
