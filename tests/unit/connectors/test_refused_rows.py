"""Records that files do not take: left out and counted, or written beside the others in the same checkpoint."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from tests.unit.connectors.test_file_writer import SCHEMA, SPANNING, Bench, bench as bench
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.base.file_writer import FileWriter, Shape
from tidegate.connectors.base.pending_files import announced, pending_files
from tidegate.connectors.files import (
    Compaction,
    FileSink,
    FileSinkOptions,
    HivePartitions,
    ParquetRows,
    PartitionCommit,
    TextLines,
)
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.errors import ConfigError, RecordError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.twophase.spi import WriterContext

CONTEXT = WriterContext(
    PipelineId("orders"),
    OperatorUid("sink"),
    Subtask("sink", 0),
    1,
    LineageId("1f"),
    Branch(0),
    "a",
    (),
    SYSTEM_CLOCK,
)
LETTERS = FileSinkOptions(rolling=SPANNING, on_error="dead_letter", dead_letters="_dead")


def letters(bench: Bench) -> list[Any]:
    found = [msgspec.json.decode(line) for text in dead(bench).values() for line in text.splitlines()]
    return [base64.b64decode(letter["value"]) for letter in found]


def dead(bench: Bench) -> dict[str, str]:
    return {name: text for name, text in bench.seen().items() if name.startswith("_dead/")}


@given(records=st.lists(st.one_of(st.integers(0, 9), st.text("ab", max_size=2)), max_size=12))
def test_every_record_is_written_or_a_letter_in_order(
    tmp_path_factory: pytest.TempPathFactory, records: list[Any]
) -> None:
    shape = Shape(on_error="dead_letter", dead_letters="_dead")
    place = tmp_path_factory.mktemp("out")
    writer = FileWriter(place, CONTEXT, TextLines(), "part", shape=shape)
    writer.write(Batch(records))
    writer.prepare(CheckpointId(1))
    writer.close()

    lines, found = [], []
    for path in place.rglob("*.pending"):
        text = path.read_text().splitlines()
        if text and text[0].startswith("{"):
            found = [base64.b64decode(msgspec.json.decode(line)["value"]) for line in text]
        else:
            lines = text
    assert lines == [record for record in records if isinstance(record, str)]
    assert found == [str(record).encode() for record in records if not isinstance(record, str)]


def test_what_is_refused_is_written_beside_the_rest_with_its_checkpoint(bench: Bench) -> None:
    bench.options = LETTERS
    bench.write("a", 1, "b\nc", "d")
    bench.decide()
    assert (bench.seen(), bench.hidden()[0][-11:]) == ({}, ".inprogress"), "files of lines are still open"
    bench.crash("again")
    bench.write(2)
    bench.finish()

    (name,) = dead(bench)
    assert name.endswith("-1.jsonl")
    assert letters(bench) == [b"1", b'"b\\nc"', b"2"]
    assert [text for path, text in bench.seen().items() if path != name] == ["a\nd\n"]
    (first, *_) = map(msgspec.json.decode, dead(bench)[name].splitlines())
    assert (first["pipeline"], first["operator"], first["place"]) == ("orders", "sink", [["form", "json"]])
    assert first["error"] == "RecordError: record 1 is a int; expected a string; map it with str"


def test_rows_without_a_partition_are_refused_too_and_small_files_of_letters_are_merged(bench: Bench) -> None:
    bench.encoder = ParquetRows(SCHEMA.remove(1))
    bench.options = FileSinkOptions(
        buckets=HivePartitions("day"),
        compaction=Compaction(checkpoints=2),
        on_error="dead_letter",
        dead_letters="_dead",
    )
    for number in range(2):
        bench.write({"id": number, "day": "a"}, {"id": number}, {"id": "x", "day": "a"})
        bench.decide()

    (table,) = bench.directory.glob("day=a/*.parquet")
    assert pq.read_table(table).to_pydict()["id"] == [0, 1]
    (merged,) = bench.directory.glob("_dead/*.jsonl")
    found = [msgspec.json.decode(line) for line in merged.read_bytes().splitlines()]
    assert [base64.b64decode(letter["value"]) for letter in found] == [
        *(b'{"id":0}', b'{"id":"x","day":"a"}'),
        *(b'{"id":1}', b'{"id":"x","day":"a"}'),
    ]


def test_letters_are_no_partition(bench: Bench) -> None:
    bench.encoder = ParquetRows(SCHEMA.remove(1))
    bench.options = FileSinkOptions(
        buckets=HivePartitions("day"),
        partition_commit=PartitionCommit(),
        on_error="dead_letter",
        dead_letters="_dead",
    )
    bench.write({"id": 1, "day": "a"}, {"id": 2})
    work = bench.prepare()

    assert work is not None
    (told,) = announced(work)
    assert (told.partitions, told.busy) == (("day=a",), ())
    assert [file.final.partition("/")[0] for file in pending_files(work)] == ["day=a", "_dead"]


def test_what_is_refused_is_counted_where_it_is_left_out(bench: Bench) -> None:
    bench.options = replace(LETTERS, on_error="skip", dead_letters=None)
    bench.write(1, "a", 2)
    bench.write(3)
    bench.finish()

    assert list(bench.seen().values()) == ["a\n"]
    assert bench.opened._refusals is not None
    assert (bench.opened._refusals.skipped, bench.opened._refusals.letters) == (3, 0)


def test_by_default_a_batch_with_a_refused_record_leaves_no_trace(bench: Bench) -> None:
    with pytest.raises(RecordError, match="record 1 is a int; expected a string"):
        bench.write("a", 1)
    bench.write("b")
    bench.finish()

    assert list(bench.seen().values()) == ["b\n"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_error": "dead_letter"}, "file sink on_error is 'dead_letter', but no target is set"),
        ({"dead_letters": "_dead"}, "file sink has dead_letters, but on_error is 'fail'"),
        (
            {"on_error": "dead_letter", "dead_letters": "dead"},
            "file sink dead_letters is 'dead'; expected the name of a folder that starts with '_', such as",
        ),
    ],
    ids=["no folder", "no policy", "seen by readers"],
)
def test_options_that_make_no_sense_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FileSinkOptions(**options)


def test_a_program_goes_on_past_records_that_files_do_not_take(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off"}
    )
    options = FileSinkOptions(on_error="dead_letter", dead_letters="_dead")
    words: list[Any] = ["a", 1, "b"]
    env.from_collection(words).sink_to(FileSink(tmp_path / "out", TextLines(), options))
    env.execute("words")

    assert sorted("".join(path.read_text() for path in (tmp_path / "out").glob("*.txt")).split()) == [
        "a",
        "b",
    ]
    (letter,) = (
        msgspec.json.decode(path.read_bytes()) for path in (tmp_path / "out" / "_dead").glob("*.jsonl")
    )
    assert base64.b64decode(letter["value"]) == b"1"
