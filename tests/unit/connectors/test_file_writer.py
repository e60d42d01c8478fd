"""Files that span checkpoints, roll, lie in folders and are merged: each record is seen once, whatever dies in between."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from tidegate.clock import ManualClock
from tidegate.connectors.base.file_writer import FileWriter
from tidegate.connectors.base.pending_files import FileCommitter, pending_files
from tidegate.connectors.files import (
    Compaction,
    CsvLines,
    FileSink,
    FileSinkOptions,
    FunctionBuckets,
    HivePartitions,
    JsonLines,
    OrcRows,
    ParquetRows,
    RollingPolicy,
    TextLines,
)
from tidegate.elements import MAX_WATERMARK, Batch
from tidegate.errors import ConfigError, RecordError, StateCorruptError, StateFormatError
from tidegate.ids import CheckpointId, PipelineId, Subtask
from tidegate.twophase.spi import CommitAnswer, Committable, CommitterContext, WriterContext

SPANNING = RollingPolicy.default_rolling_policy(part_size=1_000)
SCHEMA = pa.schema({"id": pa.int64(), "day": pa.string()})
BY_FIRST = FunctionBuckets(lambda line: line.partition(" ")[0])


class Bench:
    """A sink with one writer, as a job uses it: what is decided is committed and remembered."""

    def __init__(self, directory: Path, context: WriterContext, committer: CommitterContext) -> None:
        self.directory = directory
        self.context = context
        self.committer_context = committer
        self.options = FileSinkOptions(rolling=SPANNING)
        self.encoder: Any = TextLines()
        self.states: list[bytes] = []
        self.promised: list[bytes] = []
        self.checkpoint = 0
        self.work: Committable | None = None
        self.writer: FileWriter | None = None

    def write(self, *values: Any, timestamps: list[int] | None = None) -> None:
        self.opened.write(Batch(list(values), timestamps))

    @property
    def opened(self) -> FileWriter:
        if self.writer is None:
            sink = FileSink(self.directory, self.encoder, self.options)
            self.writer = sink.open_writer(replace(self.context, restored=tuple(self.states)))
        return self.writer

    def prepare(self) -> Committable | None:
        """A checkpoint that nobody decides."""
        self.checkpoint += 1
        prepared = self.opened.prepare(CheckpointId(self.checkpoint))
        state = self.opened.snapshot(CheckpointId(self.checkpoint))
        self.promised = [state] if state is not None else []
        if prepared is None:
            return None
        return Committable(self.context.uid, 0, CheckpointId(self.checkpoint), *prepared)

    def decide(self) -> Committable | None:
        """A checkpoint, decided and committed."""
        work = self.prepare()
        self.states = self.promised
        if work is not None:
            assert self.committer().commit([work]) == [CommitAnswer.COMMITTED]
        return work

    def finish(self) -> None:
        """The end of the input."""
        self.opened.watermark(MAX_WATERMARK)
        self.decide()

    def crash(self, attempt: str) -> None:
        """The process is gone; what is not referred to is removed, and another attempt goes on."""
        if self.writer is not None:
            self.writer.close()
        committer = self.committer()
        committer.keep_open(self.states)
        committer.abort_except([])
        self.context = replace(self.context, attempt=attempt)
        self.writer = None

    def committer(self) -> FileCommitter:
        return FileCommitter(self.directory, self.committer_context)

    def seen(self) -> dict[str, str]:
        """What others see, by path."""
        files = [
            path for path in self.directory.rglob("*") if path.is_file() and ".tidegate" not in path.parts
        ]
        return {str(path.relative_to(self.directory)): path.read_text() for path in sorted(files)}

    def hidden(self) -> list[str]:
        return sorted(path.name for path in (self.directory / ".tidegate").rglob("*") if path.is_file())


@pytest.fixture
def bench(
    tmp_path: Path, writer_context: Callable[..., WriterContext], committer_context: CommitterContext
) -> Iterator[Bench]:
    bench = Bench(tmp_path / "out", writer_context(), committer_context)
    yield bench
    if bench.writer is not None:
        bench.writer.close()


def test_a_file_of_lines_spans_checkpoints_until_it_is_large_enough(bench: Bench) -> None:
    bench.write("a")
    assert bench.decide() is None
    bench.write("b")
    assert bench.decide() is None
    assert bench.seen() == {}
    bench.write("c" * 1_000)
    work = bench.decide()

    assert work is not None
    assert work.records == 3
    assert list(bench.seen().values()) == ["a\nb\n" + "c" * 1_000 + "\n"]
    assert bench.hidden() == []


def test_a_spanning_file_is_named_after_the_checkpoint_that_first_knew_of_it(bench: Bench) -> None:
    bench.write("a")
    bench.decide()
    bench.decide()
    bench.finish()

    assert list(bench.seen()) == ["part-1f.0-e8891171-0-1.txt"]


def test_what_was_written_after_the_checkpoint_is_left_behind_by_a_restore(bench: Bench) -> None:
    bench.write("a")
    bench.decide()
    bench.write("lost")
    bench.crash("2")
    bench.write("b")
    bench.finish()

    assert list(bench.seen().values()) == ["a\nb\n"]
    assert bench.hidden() == []


def test_a_file_that_was_sealed_but_never_decided_is_still_there_to_go_on_from(bench: Bench) -> None:
    bench.write("a")
    bench.decide()
    bench.write("b")
    bench.opened.watermark(MAX_WATERMARK)
    assert bench.prepare() is not None
    bench.crash("2")
    bench.write("c")
    bench.finish()

    assert list(bench.seen().values()) == ["a\nc\n"]


def test_a_process_that_wakes_up_late_writes_into_nothing_that_is_seen(bench: Bench) -> None:
    bench.write("a")
    bench.decide()
    late, bench.writer = bench.opened, None
    bench.crash("2")
    bench.write("b")
    late.write(Batch(["late"]))
    late.prepare(CheckpointId(99))
    bench.finish()
    late.close()

    assert list(bench.seen().values()) == ["a\nb\n"]


def test_several_crashes_in_a_row_lose_nothing(bench: Bench) -> None:
    for attempt in "23456":
        bench.write(attempt)
        bench.decide()
        bench.crash(attempt)
        bench.crash(attempt + "again")
    bench.finish()

    assert list(bench.seen().values()) == ["2\n3\n4\n5\n6\n"]
    assert bench.hidden() == []


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_part_file_that_vanished_is_named(bench: Bench, damage: str) -> None:
    bench.write("a")
    bench.decide()
    bench.crash("2")
    (file,) = (bench.directory / ".tidegate" / "orders.sink").iterdir()
    file.unlink() if damage == "gone" else file.write_text("")

    with pytest.raises(
        StateCorruptError,
        match=r"the in-progress file of .*part-1f.* is missing or truncated: got 0 bytes of "
        r"'orders.sink/1f.0-0-open-1.inprogress'; expected 2; put it back or restore another checkpoint",
    ):
        bench.write("b")


def test_going_back_to_a_checkpoint_whose_open_file_is_visible_by_now_does_not_write_it_again(
    bench: Bench,
) -> None:
    bench.write("a")
    bench.decide()
    old = bench.states
    bench.write("b")
    bench.finish()
    bench.states = old
    bench.crash("2")
    bench.write("b again")
    bench.finish()

    assert sorted(bench.seen().values()) == ["a\nb\n", "b again\n"]
    assert bench.hidden() == []


def test_open_files_move_with_their_state_when_there_are_fewer_writers(bench: Bench) -> None:
    bench.write("a")
    bench.decide()
    first = bench.states
    bench.opened.close()
    bench.writer, bench.states = None, []
    bench.context = replace(bench.context, subtask=Subtask("sink", 1))
    bench.write("b")
    bench.decide()
    bench.states = [*first, *bench.states]
    bench.crash("2")
    bench.write("c")
    bench.finish()

    assert sorted(bench.seen().values()) == ["a\nc\n", "b\n"]
    assert bench.hidden() == []


def test_state_of_another_version_is_refused(bench: Bench) -> None:
    bench.write("a")
    bench.decide()
    newer = [state.replace(b"\xa1v\x01", b"\xa1v\x02", 1) for state in bench.states]

    with pytest.raises(
        StateFormatError, match=r"sink 'sink': the state of its writers cannot be read .*version 1"
    ):
        bench.committer().keep_open(newer)


def test_the_open_file_of_another_pipeline_is_copied_and_left_alone(bench: Bench) -> None:
    bench.write("a")
    bench.decide()
    bench.opened.close()
    bench.writer = None
    bench.context = replace(bench.context, pipeline=PipelineId("other"))
    bench.committer_context = replace(bench.committer_context, pipeline=PipelineId("other"))
    bench.finish()

    assert list(bench.seen().values()) == ["a\n"]
    assert bench.hidden() == ["1f.0-0-open-1.inprogress"]


@pytest.mark.parametrize("limit", ["rollover_interval", "inactivity_interval"])
def test_time_ends_a_file(bench: Bench, clock: ManualClock, limit: str) -> None:
    bench.options = FileSinkOptions(rolling=RollingPolicy(on_checkpoint=False, **{limit: 100}))
    bench.write("a")
    clock.advance(60)
    bench.write("b")
    clock.advance(60)
    bench.write("c")
    bench.decide()

    ended = {"rollover_interval": ["a\nb\n"], "inactivity_interval": []}[limit]
    assert list(bench.seen().values()) == ended
    clock.advance(100)
    bench.decide()
    assert sorted("".join(bench.seen().values())) == sorted("a\nb\nc\n")


@pytest.mark.parametrize("limit", ["rollover_interval", "inactivity_interval"])
def test_a_file_ends_in_time_though_the_wall_clock_was_set_back(
    bench: Bench, clock: ManualClock, limit: str
) -> None:
    bench.options = FileSinkOptions(rolling=RollingPolicy(on_checkpoint=False, **{limit: 100}))
    bench.write("a")
    clock.set(clock.now_ms() - 3_600_000)
    bench.decide()
    clock.advance(100)
    bench.decide()

    assert list(bench.seen().values()) == ["a\n"]


def test_several_files_of_one_checkpoint_have_names_of_their_own(bench: Bench) -> None:
    bench.options = FileSinkOptions(rolling=RollingPolicy(part_size=2))
    for line in "abc":
        bench.write(line)
    work = bench.decide()

    assert work is not None
    assert bench.seen() == {
        "part-1f.0-e8891171-0-1.txt": "a\n",
        "part-1f.0-e8891171-0-1-1.txt": "b\n",
        "part-1f.0-e8891171-0-1-2.txt": "c\n",
    }
    assert work.describe.endswith("part-1f.0-e8891171-0-1.txt and 2 more")
    assert bench.committer().commit([work]) == [CommitAnswer.ALREADY_COMMITTED]
    (bench.directory / "part-1f.0-e8891171-0-1-2.txt").unlink()
    assert bench.committer().commit([work]) == [CommitAnswer.UNKNOWN]


def test_records_go_to_the_folders_of_their_buckets(bench: Bench) -> None:
    bench.options = FileSinkOptions(buckets=BY_FIRST)
    bench.write("x 1", "y/z 2", "x 3")
    bench.decide()

    assert bench.seen() == {
        "x/part-1f.0-e8891171-0-1.txt": "x 1\nx 3\n",
        "y/z/part-1f.0-e8891171-0-1-1.txt": "y/z 2\n",
    }


def test_columns_of_hive_partitions_are_in_the_names_of_folders_alone(bench: Bench) -> None:
    bench.encoder, bench.options = JsonLines(), FileSinkOptions(buckets=HivePartitions("day"))
    bench.write({"id": 1, "day": "2024-05-01"}, {"id": 2, "day": None})
    bench.decide()

    assert bench.seen() == {
        "day=2024-05-01/part-1f.0-e8891171-0-1.jsonl": '{"id":1}\n',
        "day=__HIVE_DEFAULT_PARTITION__/part-1f.0-e8891171-0-1-1.jsonl": '{"id":2}\n',
    }


@pytest.mark.parametrize("bucket", ["..", "a/../b", "/a", "_a", ".a", "a//b", "x" * 300, "\ud800", "a\0b"])
def test_a_bucket_that_is_no_folder_below_is_refused_and_nothing_is_written(
    bench: Bench, bucket: str
) -> None:
    bench.options = FileSinkOptions(buckets=FunctionBuckets(lambda line: bucket if line == "bad" else ""))

    with pytest.raises(
        RecordError, match=r"a record belongs to bucket .*, which is not a folder that readers list"
    ):
        bench.write("good", "bad")
    assert bench.hidden() == []


def test_a_file_in_the_place_of_a_bucket_is_named(bench: Bench) -> None:
    bench.options = FileSinkOptions(buckets=BY_FIRST)
    bench.directory.mkdir()
    (bench.directory / "x").touch()

    with pytest.raises(ConfigError, match=r"output directory: '.*/x' is a file; expected a directory"):
        bench.write("x 1")


@pytest.mark.parametrize(
    ("compression", "suffix", "read"),
    [("gzip", ".gz", gzip.open), ("bzip2", ".bz2", bz2.open), ("xz", ".xz", lzma.open)],
    ids=["gzip", "bzip2", "xz"],
)
def test_compressed_files_span_checkpoints_and_restores(
    bench: Bench, compression: Any, suffix: str, read: Callable[[Path], Any]
) -> None:
    bench.options = FileSinkOptions(rolling=SPANNING, compression=compression)
    bench.write("a")
    bench.decide()
    bench.write("lost")
    bench.crash("2")
    bench.write("b")
    bench.decide()
    bench.finish()

    (path,) = bench.directory.glob(f"*.txt{suffix}")
    with read(path) as file:
        assert file.read() == b"a\nb\n"


def test_csv_files_begin_with_the_names_once(bench: Bench) -> None:
    bench.encoder = CsvLines(("id", "name"))
    bench.write({"id": 1, "name": "a,b"})
    bench.decide()
    bench.crash("2")
    bench.write({"name": None, "id": True})
    bench.finish()

    assert list(bench.seen().values()) == ['id,name\n1,"a,b"\nTrue,\n']


@pytest.mark.parametrize(
    ("encoder", "read"),
    [
        (ParquetRows(SCHEMA), pq.read_table),
        (OrcRows(SCHEMA), orc.read_table),
        (ParquetRows(SCHEMA, compression="zstd", row_group_rows=1), pq.read_table),
    ],
    ids=["parquet", "orc", "a row a group"],
)
def test_bulk_files_are_whole_at_each_checkpoint(
    bench: Bench, encoder: Any, read: Callable[[Path], pa.Table]
) -> None:
    bench.encoder, bench.options = encoder, FileSinkOptions()
    for number in range(2):
        bench.write({"id": number, "day": "a"}, {"id": number + 10})
        bench.write({"day": None, "id": number + 20})
        bench.decide()

    tables = [read(path) for path in sorted(bench.directory.glob(f"*{encoder.suffix}"))]
    assert [table.to_pydict() for table in tables] == [
        {"id": [number, number + 10, number + 20], "day": ["a", None, None]} for number in range(2)
    ]
    assert bench.hidden() == []


@pytest.mark.parametrize("encoder", [ParquetRows(SCHEMA), OrcRows(SCHEMA)], ids=["parquet", "orc"])
def test_small_bulk_files_are_merged_after_some_checkpoints(bench: Bench, encoder: Any) -> None:
    bench.encoder, bench.options = encoder, FileSinkOptions(compaction=Compaction(checkpoints=3))
    for number in range(5):
        bench.write({"id": number, "day": "a"})
        bench.decide()
        if number in (1, 3):
            bench.crash(f"again{number}")
    bench.finish()

    read = pq.read_table if encoder.suffix == ".parquet" else orc.read_table
    files = sorted(bench.directory.glob(f"*{encoder.suffix}"))
    assert [read(path).to_pydict()["id"] for path in files] == [[0, 1, 2], [3, 4]]
    assert bench.hidden() == []


def test_small_files_of_lines_are_merged_by_size_in_each_folder(bench: Bench) -> None:
    bench.options = FileSinkOptions(buckets=BY_FIRST, compaction=Compaction(size=12, delimiter=b"--\n"))
    for number in range(3):
        bench.write(f"x {number}", *([f"y {number}"] if number == 0 else []))
        bench.decide()
    assert bench.seen() == {"x/part-1f.0-e8891171-0-1.txt": "x 0\n--\nx 1\n--\nx 2\n"}
    bench.finish()

    assert bench.seen()["y/part-1f.0-e8891171-0-1-1.txt"] == "y 0\n"
    assert bench.hidden() == []


def test_a_merge_that_was_never_decided_is_done_again(bench: Bench) -> None:
    bench.options = FileSinkOptions(compaction=Compaction(checkpoints=2))
    bench.write("a")
    bench.decide()
    bench.write("b")
    assert bench.prepare() is not None
    bench.crash("2")
    bench.write("c")
    work = bench.decide()

    assert work is not None
    assert work.records == 2
    assert list(bench.seen().values()) == ["a\nc\n"]
    assert bench.hidden() == []


def test_a_writer_without_open_files_has_no_state(bench: Bench) -> None:
    bench.options = FileSinkOptions()
    bench.write("a")
    bench.decide()

    assert bench.states == []


def test_a_payload_names_all_its_files(bench: Bench) -> None:
    bench.options = FileSinkOptions(buckets=BY_FIRST)
    bench.write("x", "y")
    work = bench.prepare()

    assert work is not None
    assert [file.final.partition("/")[0] for file in pending_files(work)] == ["x", "y"]
    assert msgspec.msgpack.decode(work.payload)["v"] == 2
