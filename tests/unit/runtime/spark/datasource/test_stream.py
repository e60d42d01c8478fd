"""A stream of Spark as Spark asks for it, with Spark left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows
from pyspark.sql.types import LongType, StructType

from tidegate import registry
from tidegate.clock import ManualClock
from tidegate.connectors.files.rows import FileRows
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.socket import SocketTextSource
from tidegate.errors import ConfigError
from tidegate.runtime.spark.datasource import TidegateDataSource
from tidegate.runtime.spark.datasource.plan import Offset
from tidegate.runtime.spark.datasource.stream import StreamReader, _Splits

NUMBER = StructType().add("value", LongType())
ID = StructType().add("id", LongType())


def logged(offset: dict[str, Any]) -> dict[str, Any]:
    """What comes back from Spark's log."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def batches(
    reader: StreamReader, start: dict[str, Any], most: int = 10
) -> tuple[list[list[int]], dict[str, Any]]:
    """The values of each batch until there is nothing new, and where that is."""
    found = list[list[int]]()
    for _ in range(most):
        end = logged(reader.latestOffset(start, reader.getDefaultReadLimit()))
        if end == start:
            break
        found.append(values(reader, start, end))
        start = end
    return found, start


def values(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return sorted(
        value
        for piece in reader.partitions(start, end)
        for batch in reader.read(piece)
        for value in batch.column(0).to_pylist()
    )


def numbers(**options: str) -> StreamReader:
    return StreamReader({"connector": "generator", **options}, NUMBER)


def test_batches_have_as_many_records_as_they_may_and_all_come() -> None:
    reader = numbers(count="10", splits="2", maxRecordsPerTrigger="4")
    found, _ = batches(reader, logged(reader.initialOffset()))
    reader.stop()

    assert found == [[0, 1, 5, 6], [2, 3, 7, 8], [4, 9]]


def test_without_a_limit_a_batch_has_everything() -> None:
    reader = numbers(count="10")
    found, _ = batches(reader, logged(reader.initialOffset()))
    assert found == [list(range(10))]


def test_a_query_that_starts_again_goes_on_where_it_was_and_repeats_a_batch_exactly() -> None:
    first = numbers(count="10", splits="1", maxRecordsPerTrigger="4")
    begin = logged(first.initialOffset())
    middle = logged(first.latestOffset(begin, first.getDefaultReadLimit()))
    end = logged(first.latestOffset(middle, first.getDefaultReadLimit()))

    again = numbers(count="10", splits="1", maxRecordsPerTrigger="3")
    assert values(again, middle, end) == values(first, middle, end) == [4, 5, 6, 7]
    assert batches(again, end)[0] == [[8, 9]]
    assert again.partitions(end, end) == []


def test_an_offset_that_came_to_nothing_is_planned_again() -> None:
    reader = numbers(count="10", splits="1", maxRecordsPerTrigger="4")
    begin = logged(reader.initialOffset())
    first = reader.latestOffset(begin, reader.getDefaultReadLimit())
    assert reader.latestOffset(begin, reader.getDefaultReadLimit()) == first


def test_new_files_are_found_in_time_and_read_once(tmp_path: Path) -> None:
    clock = ManualClock(1_000)
    options = {"connector": "files", "path": str(tmp_path), "watch_ms": "500", "maxSplitsPerTrigger": "2"}
    reader = StreamReader(options, ID, clock)
    for number in range(3):
        tmp_path.joinpath(f"{number}.jsonl").write_text(f'{{"id": {number}}}\n')
    found, at = batches(reader, logged(reader.initialOffset()))
    assert found == [[0, 1], [2]]

    tmp_path.joinpath("3.jsonl").write_text('{"id": 3}\n{"id": 4}\n')
    assert batches(reader, at) == ([], at)
    clock.advance(500)
    assert batches(reader, at)[0] == [[3, 4]]
    assert batches(StreamReader(options, ID, clock), at)[0] == [[3, 4]]


def test_available_now_leaves_what_comes_later(tmp_path: Path) -> None:
    clock = ManualClock(1_000)
    options = {"connector": "files", "path": str(tmp_path), "watch_ms": "1", "maxSplitsPerTrigger": "1"}
    reader = StreamReader(options, ID, clock)
    for number in range(2):
        tmp_path.joinpath(f"{number}.jsonl").write_text(f'{{"id": {number}}}\n')
    reader.prepareForTriggerAvailableNow()
    start = logged(reader.initialOffset())
    first = logged(reader.latestOffset(start, reader.getDefaultReadLimit()))
    tmp_path.joinpath("2.jsonl").write_text('{"id": 2}\n')
    clock.advance(1_000)
    found, at = batches(reader, first)

    assert found == [[1]]
    later = StreamReader(options, ID, clock)
    later.prepareForTriggerAvailableNow()
    assert batches(later, at)[0] == [[2]]


def test_the_limit_is_what_the_options_say() -> None:
    assert numbers(count="1").getDefaultReadLimit() == ReadAllAvailable()
    assert numbers(count="1", maxRecordsPerTrigger="7").getDefaultReadLimit() == ReadMaxRows(7)
    assert numbers(count="1", maxSplitsPerTrigger="7").getDefaultReadLimit() == ReadMaxFiles(7)


def test_a_source_without_an_end_needs_a_limit() -> None:
    with pytest.raises(
        ConfigError, match=r"^connector 'generator' is unbounded; expected the option maxRecordsPerTrigger"
    ):
        numbers()
    reader = numbers(splits="1", maxRecordsPerTrigger="3")
    found, _ = batches(reader, logged(reader.initialOffset()), most=2)
    assert found == [[0, 1, 2], [3, 4, 5]]


def test_what_cannot_be_read_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileRows, "source", lambda self, options, bounded: SocketTextSource("localhost", 1))
    with pytest.raises(
        ConfigError, match=r"^connector 'files' cannot be a stream of Spark, because it is not"
    ):
        StreamReader({"connector": "files", "path": "/in"}, ID)


def test_a_source_that_tells_its_readers_something_is_refused() -> None:
    splits = _Splits(GeneratorSource(abs, 3), Offset().as_json(), ManualClock())
    with pytest.raises(
        ConfigError, match=r"^a source sends events to its readers, which do not stay open on Spark; use"
    ):
        splits.send_event(0, b"")


def test_columns_are_the_connectors_or_asked_for() -> None:
    assert TidegateDataSource({"connector": "generator"}).schema() == "value BIGINT"
    with pytest.raises(
        ConfigError, match=r"^connector 'files' has no columns of its own; expected some by .schema\('id"
    ):
        TidegateDataSource({"connector": "files"}).schema()


def test_an_older_pyspark_is_told_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tidegate.runtime.spark.datasource.stream", None)
    with pytest.raises(
        ConfigError,
        match=rf"^a stream with limits needs PySpark 4.2 or newer; got {pyspark.__version__}; sinks and",
    ):
        TidegateDataSource({"connector": "generator", "count": "1"}).streamReader(NUMBER)


def test_names_of_entry_points_end_with_rows() -> None:
    assert {name for name in registry.names("tidegate.connectors") if name.endswith(".rows")} >= {
        "files.rows",
        "generator.rows",
        "kafka.rows",
    }
