"""Files that are damaged, vanish, or are something else: named with the place, left out and counted, or handed on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.connectors.test_bad_lines import drained, opened
from tidegate.connectors.base.dead_letters import DeadLetterLines, OnError
from tidegate.connectors.files import (
    FileFormat,
    FileSink,
    JsonFormat,
    ParquetFormat,
    RecordFileSource,
    TextFormat,
)
from tidegate.connectors.files.enumerator import Files, WatchingEnumerator
from tidegate.connectors.files.split import FileSplit
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import JobFailedError, RecordError, UnavailableError
from tidegate.ids import CheckpointId


def vanish(path: Path) -> None:
    path.unlink()


def become_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def tear(path: Path) -> None:
    path.write_bytes(gzip.compress(b"a\n" * 100_000)[:-50])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (vanish, UnavailableError, r"^file .*a.gz cannot be read from position 0 on: .*No such file"),
        (
            become_a_directory,
            UnavailableError,
            r"^file .*a.gz cannot be read from position 0 on: .*Is a direct",
        ),
        (tear, RecordError, r"^file .*a.gz cannot be decompressed: .*it is damaged"),
    ],
    ids=["vanished", "directory", "damaged"],
)
def test_what_cannot_be_read_is_named_or_left_out_with_the_rest_still_read(
    tmp_path: Path, change: Callable[[Path], None], error: type[Exception], message: str
) -> None:
    first, second = tmp_path / "a.gz", tmp_path / "b.txt"
    first.write_bytes(gzip.compress(b"x\n"))
    second.write_text("whole\n")
    splits = [split for path in (first, second) for split in TextFormat().parts(str(path), 1 << 20)]
    change(first)

    with pytest.raises(error, match=message):
        drained(opened(splits, "fail", TextFormat()), limit=1 << 20)
    skipping = opened(splits, "skip", TextFormat())
    values, _ = drained(skipping, limit=1 << 20)
    assert (values[-1], skipping.parts_left_out, skipping.letters) == ("whole", 1, 0)
    handing_on = opened(splits, "dead_letter", TextFormat())
    values, (letter,) = drained(handing_on, limit=1 << 20)
    assert (values[-1], handing_on.parts_left_out, handing_on.letters) == ("whole", 1, 1)
    read = sum(len(value) + 1 for value in values[:-1])
    assert (letter.value, dict(letter.place)) == (None, {"path": str(first), "from": str(read)})
    assert str(first) in letter.error
    assert handing_on.snapshot(CheckpointId(1)) == [], "it is not tried again"


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_a_file_that_is_none_is_found_when_files_are_listed(
    tmp_path: Path, deal: Any, on_error: OnError
) -> None:
    bad, good = tmp_path / "a.parquet", tmp_path / "b.parquet"
    bad.write_text("no Parquet")
    pq.write_table(pa.table({"id": [7]}), good)
    files = Files([tmp_path], ParquetFormat(), 1 << 20, strict=on_error == "fail")
    watcher = WatchingEnumerator(deal, files, 1_000, None)
    if on_error == "fail":
        with pytest.raises(RecordError, match=r"^file .*a.parquet is not a valid Parquet file: "):
            watcher.start()
        return
    watcher.start()
    watcher.request(0)
    watcher.request(1)

    splits: list[FileSplit] = [split for splits in deal.assigned.values() for split in splits]
    reader = opened(splits, on_error, ParquetFormat())
    assert (drained(reader), reader.parts_left_out) == (([{"id": 7}], []), 1)
    assert files.changed_ms(str(tmp_path / "gone")) == 0, "who vanished is not the newest"


@pytest.mark.parametrize(
    ("file_format", "name"),
    [(ParquetFormat(), "a.parquet"), (JsonFormat(), "a.jsonl.gz")],
    ids=["rows", "lines"],
)
def test_a_program_hands_on_files_that_it_cannot_read(
    tmp_path: Path, file_format: FileFormat, name: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(b"damaged")
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "restart-strategy.type": "none"}
    )
    source = RecordFileSource(str(tmp_path / "in"), file_format)
    with pytest.raises(JobFailedError, match=name):
        list(env.from_source(source).execute_and_collect())
    dead = FileSink(tmp_path / "dead", DeadLetterLines())
    lenient = RecordFileSource(str(tmp_path / "in"), file_format, on_error="dead_letter", dead_letters=dead)

    assert list(env.from_source(lenient).execute_and_collect()) == []
    (letter,) = (json.loads(path.read_text()) for path in (tmp_path / "dead").glob("part-*"))
    assert (letter["value"], letter["place"]) == (
        None,
        [["path", str(tmp_path / "in" / name)], ["from", "0"]],
    )
