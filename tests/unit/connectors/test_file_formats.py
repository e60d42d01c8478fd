"""What each format of files reads, what it refuses with which words, and how a directory is watched."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from tidegate.arrow_rows import ArrowRows
from tidegate.clock import ManualClock
from tidegate.connectors.files import (
    CsvFormat,
    FileFormat,
    JsonFormat,
    OrcFormat,
    ParquetFormat,
    RecordFileSource,
    TextFormat,
)
from tidegate.connectors.files.enumerator import Files, WatchingEnumerator
from tidegate.connectors.files.reader import FileReader
from tidegate.connectors.spi import ReaderContext
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.errors import ConfigError, RecordError, StateFormatError, UnavailableError
from tidegate.ids import CheckpointId, OperatorUid, Subtask

CONTEXT = ReaderContext(OperatorUid("files"), Subtask("files", 0), 1, ManualClock())


def read(path: Path, file_format: FileFormat, most: int = 1 << 20) -> list[Any]:
    reader = FileReader(file_format, "fail", CONTEXT)
    reader.add_splits(file_format.parts(str(path), most))
    reader.no_more_splits()
    values: list[Any] = []
    while isinstance(batch := reader.poll(3), Batch):
        values += batch.values
    reader.close()
    return values


def quoted(text: str) -> str:
    return text.replace('"', '""')


fields = st.text(alphabet='ab,"é\u2028', max_size=4)


@given(rows=st.lists(st.tuples(fields, st.integers()), max_size=8), most=st.integers(1, 9))
def test_csv_gives_back_every_row_however_the_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int]], most: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    lines = [f'"{quoted(text)}",{number}\r\n' for text, number in rows]
    path.write_bytes(("name,id\r\n" + "".join(lines)).encode())

    found = read(path, CsvFormat(types={"id": int}), most)

    assert found == [{"name": name, "id": number} for name, number in rows]


def test_csv_makes_values_of_fields_and_leaves_others_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("1;x;true;2.5\n2;'y;z';;\n")
    reading = CsvFormat(
        names=("id", "skip", "ok", "half"),
        types={"id": int, "ok": bool, "half": float},
        columns=("id", "ok", "half"),
        delimiter=";",
        quote="'",
    )

    assert read(path, reading) == [
        {"id": 1, "ok": True, "half": 2.5},
        {"id": 2, "ok": None, "half": None},
    ]


@pytest.mark.parametrize(
    ("text", "reading", "message"),
    [
        (
            "a,b\n1,2\n3\n",
            CsvFormat(),
            r"line at byte 8 of .* is not valid CSV: it has 1 fields; expected 2; got b'3",
        ),
        (
            "a\nx\n",
            CsvFormat(types={"a": int}),
            r"line at byte 2 of .* is not valid CSV: invalid literal for int",
        ),
        ("a\nmaybe\n", CsvFormat(types={"a": bool}), "'maybe' is neither true nor false"),
        (
            'a\n"x\ny"\n',
            CsvFormat(),
            "line at byte 2 of .* is not valid CSV: (unexpected end of data|a quoted line break)",
        ),
        (
            "{}\n\n[1,\n",
            JsonFormat(),
            r"line at byte 4 of .* is not valid JSON: Input data was truncated; got b'\[1,",
        ),
        (
            '{"a":1}\n',
            JsonFormat(list[int]),
            "line at byte 0 of .* is not valid JSON: Expected `array`, got `object`",
        ),
    ],
    ids=["too few fields", "no number", "no truth", "line break in quotes", "no JSON", "another type"],
)
def test_a_line_that_is_none_of_the_format_is_named_by_its_place(
    tmp_path: Path, text: str, reading: FileFormat, message: str
) -> None:
    (tmp_path / "lines").write_text(text)

    with pytest.raises(RecordError, match=message):
        read(tmp_path / "lines", reading)


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        (ParquetFormat(), "file .*lines is not a valid Parquet file: .*expected a complete file"),
        (OrcFormat(), "file .*lines is not a valid ORC file: .*expected a complete file"),
    ],
    ids=["parquet", "orc"],
)
def test_a_file_of_another_format_is_named(tmp_path: Path, reading: FileFormat, message: str) -> None:
    (tmp_path / "lines").write_text("these are lines\n" * 10)

    with pytest.raises(RecordError, match=message):
        reading.parts(str(tmp_path / "lines"), 100)


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "name": ["x"]}), tmp_path / "a.parquet")
    pa.orc.write_table(pa.table({"id": [1], "name": ["x"]}), tmp_path / "a.orc")
    (tmp_path / "a.csv").write_text("id,name\n1,x\n")

    for reading, name in (
        (ParquetFormat(columns=("age",)), "a.parquet"),
        (ParquetFormat(where=[[("age", ">", 1)], [("id", "==", 1)]]), "a.parquet"),
        (OrcFormat(columns=("age",)), "a.orc"),
    ):
        with pytest.raises(
            ConfigError, match=rf"file .*{name} has no column 'age'; expected one of id, name"
        ):
            read(tmp_path / name, reading)
    with pytest.raises(ConfigError, match="CSV has no field 'age'; the first line has id, name"):
        read(tmp_path / "a.csv", CsvFormat(types={"age": int}))


def test_row_groups_that_the_statistics_rule_out_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"id": range(100)}), path, row_group_size=10, compression="none", use_dictionary=False
    )
    content = bytearray(path.read_bytes())
    first = pq.ParquetFile(path).metadata.row_group(0).column(0)
    content[first.data_page_offset : first.data_page_offset + first.total_compressed_size] = bytes(
        first.total_compressed_size
    )
    path.write_bytes(content)

    assert [row["id"] for row in read(path, ParquetFormat(where=[("id", ">=", 95)]))] == [95, 96, 97, 98, 99]


@pytest.mark.parametrize(
    ("reading", "left_out"),
    [(OrcFormat(), set()), (ParquetFormat(), set()), (ParquetFormat(where=[("id", "!=", 5_000)]), {5_000})],
    ids=["orc", "parquet", "parquet, some rows"],
)
def test_many_rows_come_in_pieces_that_can_be_left_at_each_of_them(
    tmp_path: Path, reading: FileFormat, left_out: set[int]
) -> None:
    path = str(tmp_path / "a")
    table = pa.table({"id": range(70_000)})
    (pa.orc if isinstance(reading, OrcFormat) else pq).write_table(table, path)
    (split,) = reading.parts(path, 1 << 30)

    for start in (0, 4_500, 65_535, 69_999):
        pieces = list(reading.read(msgspec.structs.replace(split, at=start)))
        expected = [number for number in range(start, 70_000) if number not in left_out]
        assert {type(piece.values) for piece in pieces} == {ArrowRows}
        assert max(len(piece.values) for piece in pieces) <= 4_096
        assert [row["id"] for piece in pieces for row in piece.values] == expected
        assert [at for piece in pieces for at in piece.bounds[:-1]] == expected
        assert [piece.bounds[-1] for piece in pieces] == [*(piece.bounds[0] for piece in pieces[1:]), 70_000]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CsvFormat(delimiter="::"), "CSV delimiter is '::'; expected one character"),
        (lambda: CsvFormat(names=("a", "a")), "CSV field names are .* in names; expected different names"),
        (lambda: CsvFormat(columns=()), r"CSV columns are \(\); expected at least one, or None for all"),
        (lambda: ParquetFormat(columns=()), r"Parquet columns are \(\); expected at least one"),
        (lambda: OrcFormat(columns=()), r"ORC columns are \(\); expected at least one"),
        (lambda: RecordFileSource([], TextFormat()), "a file source has no path; expected a file"),
        (
            lambda: RecordFileSource("a", TextFormat(), watch_ms=0),
            "watch_ms is 0; expected at least 1, or None",
        ),
    ],
    ids=["delimiter", "names", "no field", "no column", "no column of ORC", "no path", "interval"],
)
def test_wrong_descriptions_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"line\n" * 1_000)[:-12])

    with pytest.raises(RecordError, match=r"file .*a\.txt\.gz cannot be decompressed: .*; it is damaged"):
        read(path, TextFormat())


def test_a_file_that_comes_later_is_dealt_to_whoever_waits_and_only_once(tmp_path: Path, deal: Any) -> None:
    def watch(restored: bytes | None = None) -> WatchingEnumerator:
        return WatchingEnumerator(deal, Files([tmp_path], TextFormat(), 100), 1_000, restored)

    (tmp_path / "a").write_text("x\n")
    watcher = watch()
    watcher.start()
    watcher.request(0)
    watcher.request(1)
    (tmp_path / "b").write_text("y\n")
    (tmp_path / ".c").write_text("not yet\n")
    found = watcher.discover()
    watcher.discovered(found)
    watcher.discovered(found)

    assert [split.path for splits in deal.assigned.values() for split in splits] == [
        str(tmp_path / "a"),
        str(tmp_path / "b"),
    ]
    assert watcher.discovery_interval_ms == 1_000
    assert watch(watcher.snapshot(CheckpointId(1))).discover().parts == {}


def test_what_a_watcher_cannot_read_is_named(tmp_path: Path, deal: Any) -> None:
    files = Files([tmp_path], TextFormat(), 100)
    with pytest.raises(StateFormatError, match="the state of a watched directory cannot be read"):
        WatchingEnumerator(deal, files, 1, b"\xc1")
    with pytest.raises(UnavailableError, match=r"file .*gone cannot be read: .*No such file"):
        files.parts(str(tmp_path / "gone"))


def test_a_program_reads_rows_of_parquet_that_it_wants(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"id": range(1_000), "name": ["x"] * 1_000}), tmp_path / "a.parquet", row_group_size=100
    )
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "parallelism.default": 2}
    )
    source = RecordFileSource(str(tmp_path), ParquetFormat(("id",), [("id", ">=", 990)]), part_bytes=1)

    found = list(env.from_source(source).map(lambda row: row["id"]).execute_and_collect())

    assert sorted(found) == list(range(990, 1_000))
