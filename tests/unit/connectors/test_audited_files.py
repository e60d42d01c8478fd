"""Files as one side of an audit."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.connectors.conftest import Deal
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.files import (
    AvroFormat,
    CsvFormat,
    JsonFormat,
    ParquetFormat,
    RecordFileSource,
    TextFormat,
)
from tidegate.connectors.files.audited import audited
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.spi import Part, ReaderContext, Remaining, SupportsAudit
from tidegate.errors import ConfigError, StateFormatError
from tidegate.ids import CheckpointId
from tidegate.runtime.audit.reading import read, read_one


def values(source: RecordFileSource, parts: tuple[Part, ...]) -> list[object]:
    return [value for _, some, _ in read(source, parts, SYSTEM_CLOCK) for value in some]


def left_after(source: RecordFileSource, batches: int, context: ReaderContext, limit: int = 3) -> Remaining:
    """What a checkpoint says after a reader polled so often."""
    deal = Deal(parallelism=1)
    enumerator = source.open_enumerator(deal, None)
    enumerator.start()
    enumerator.request(0)
    reader = source.open_reader(context)
    reader.add_splits(deal.assigned.get(0, []))
    for _ in range(batches):
        reader.poll(limit)
    splits = tuple(map(msgspec.msgpack.encode, reader.snapshot(CheckpointId(1))))
    reader.close()
    return Remaining(splits, enumerator.snapshot(CheckpointId(1)))


def lines(folder: Path, count: int = 20) -> RecordFileSource:
    (folder / "a.txt").write_text("".join(f"line {n}\n" for n in range(count)))
    (folder / "b.txt").write_text("last\n")
    return RecordFileSource(str(folder), TextFormat(), part_bytes=64)


@pytest.mark.parametrize("batches", [0, 1, 2, 5, 7, 100])
def test_files_are_divided_exactly_where_a_checkpoint_goes_on(
    tmp_path: Path, reader_context: ReaderContext, batches: int
) -> None:
    source = lines(tmp_path)
    everything = values(source, source.extent().parts)
    assert everything == [f"line {n}" for n in range(20)] + ["last"]

    # Read in other parts than those of the job.
    whole = RecordFileSource(str(tmp_path), TextFormat())
    extent = whole.extent(left_after(source, batches, reader_context))

    before, later = values(whole, extent.parts), values(whole, extent.later)
    assert sorted(map(str, before + later)) == sorted(map(str, everything))
    assert (len(before) == 0, len(later) == 0) == (batches == 0, batches == 100)


def test_rows_are_divided_within_a_row_group(tmp_path: Path, reader_context: ReaderContext) -> None:
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "a.parquet", row_group_size=40)
    source = RecordFileSource(str(tmp_path), ParquetFormat())

    extent = source.extent(left_after(source, 1, reader_context, limit=55))

    ids = [[row["id"] for row in values(source, parts)] for parts in (extent.parts, extent.later)]  # type: ignore[index]
    assert ids[0] + ids[1] == list(range(100))
    assert 0 < len(ids[0]) < 100
    assert read_one(source, extent.parts[0], 7, SYSTEM_CLOCK) == {"id": 7}
    assert (extent.parts[0].name, extent.parts[0].unit) == (str(tmp_path / "a.parquet"), "row")


def test_a_file_that_was_not_seen_yet_is_read_later(tmp_path: Path, reader_context: ReaderContext) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n")
    source = RecordFileSource(str(tmp_path), TextFormat(), watch_ms=1_000)
    remaining = left_after(source, 1, reader_context)
    (tmp_path / "b.txt").write_text("3\n")

    extent = source.extent(remaining)

    assert [values(source, parts) for parts in (extent.parts, extent.later)] == [["1", "2"], ["3"]]


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    source = lines(tmp_path)

    with pytest.raises(
        StateFormatError,
        match=r"^the checkpoint does not contain the state of a file source .*; name the source by its uid",
    ):
        source.extent(Remaining((b"\x01",), b"\x80"))


def test_one_record_is_read_by_its_position(tmp_path: Path) -> None:
    source = lines(tmp_path)
    part = source.extent().parts[0]

    assert isinstance(source, SupportsAudit)
    assert read_one(source, part, 14, SYSTEM_CLOCK) == "line 2"


@pytest.mark.parametrize(
    ("name", "query", "file_format"),
    [
        ("a.jsonl", "", JsonFormat()),
        ("a.json.gz", "", JsonFormat()),
        ("a.csv", "?types=id:int,ok:bool", CsvFormat(types={"id": int, "ok": bool})),
        ("a.parquet", "", ParquetFormat()),
        ("a.avro", "", AvroFormat()),
        ("a.log", "", TextFormat()),
        ("a.log", "?format=json", JsonFormat()),
    ],
)
def test_the_format_is_what_is_said_or_what_names_end_with(
    tmp_path: Path, name: str, query: str, file_format: object
) -> None:
    (tmp_path / "_hidden.orc").touch()
    (tmp_path / ".tidegate").mkdir()
    (tmp_path / ".tidegate" / "claim.orc").touch()
    (tmp_path / name).touch()

    assert (
        audited(f"{tmp_path}{query}").format
        == audited(f"file://{tmp_path / name}{query}").format
        == file_format
    )


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("partition=1", r"unknown option 'partition' in .*; expected format or types$"),
        ("format=xml", r"has format 'xml'; expected one of text, json, csv, parquet, orc, avro$"),
        ("format=json&types=id:int", r"has types for format 'json'; expected csv$"),
        (
            "format=csv&types=id:date",
            r"^invalid types 'id:date' at id:date; expected, for example, id:int,amount:float$",
        ),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(query: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        audited(f"/data?{query}")


def test_a_part_that_lies_in_several_remains_is_read_around_them(tmp_path: Path) -> None:
    source = RecordFileSource(str(lines(tmp_path).paths), TextFormat())
    path = str(tmp_path / "a.txt")
    waiting = [FileSplit(f"{path}:{at}", path, at, at + 14) for at in (14, 56)]  # type: ignore[arg-type]
    remaining = Remaining((), msgspec.msgpack.encode({"v": 1, "splits": waiting}))

    extent = source.extent(remaining)

    assert [(each.start, each.end) for each in extent.later] == [(14, 28), (56, 70)]
    assert values(source, extent.later) == ["line 2", "line 3", "line 8", "line 9"]
    assert len(values(source, extent.parts)) == 17
