"""Lines that are no records: named, skipped and counted, or handed on, each exactly once wherever a checkpoint falls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.clock import ManualClock
from tidegate.connectors.base.dead_letters import DeadLetterLines, OnError
from tidegate.connectors.collection import CollectSink
from tidegate.connectors.files import CsvFormat, FileSink, JsonFormat, RecordFileSource, TextFormat
from tidegate.connectors.files.reader import FileReader
from tidegate.connectors.files.reading import FileFormat
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.spi import ReaderContext, Unreadable
from tidegate.datastream import StreamExecutionEnvironment as Env
from tidegate.elements import Batch
from tidegate.errors import ConfigError, RecordError
from tidegate.ids import CheckpointId, OperatorUid, PipelineId, Subtask

CONTEXT = ReaderContext(
    OperatorUid("files"), Subtask("files", 0), 1, ManualClock(), pipeline=PipelineId("billing")
)


def opened(
    splits: Sequence[FileSplit], on_error: OnError, file_format: FileFormat | None = None
) -> FileReader:
    reader = FileReader(file_format or JsonFormat(), on_error, CONTEXT)
    reader.add_splits(splits)
    reader.no_more_splits()
    return reader


def drained(reader: FileReader, polls: int | None = None, limit: int = 2) -> tuple[list[Any], list[Any]]:
    """Values and dead letters of so many polls, or of all."""
    values: list[Any] = []
    letters: list[Any] = []
    while polls is None or polls > 0:
        found = reader.poll(limit)
        if isinstance(found, Unreadable):
            letters += found.letters.values
            found = found.batch or Batch([])
        if not isinstance(found, Batch):
            break
        values += found.values
        polls = None if polls is None else polls - 1
    return values, letters


@given(
    good=st.lists(st.booleans(), max_size=12),
    most=st.integers(1, 40),
    polls=st.integers(0, 6),
    limit=st.integers(1, 4),
)
def test_every_line_comes_once_as_a_value_or_as_a_dead_letter_wherever_reading_stops(
    tmp_path_factory: pytest.TempPathFactory, good: list[bool], most: int, polls: int, limit: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines.json"
    path.write_text("".join(f"{number}\n" if fine else f"no {number}\n" for number, fine in enumerate(good)))
    first = opened(JsonFormat().parts(str(path), most), "dead_letter")
    values, letters = drained(first, polls, limit)
    more, others = drained(opened(first.snapshot(CheckpointId(1)), "dead_letter"), None, limit)

    assert values + more == [number for number, fine in enumerate(good) if fine]
    bad = [number for number, fine in enumerate(good) if not fine]
    assert [letter.value for letter in letters + others] == [b"no %d" % number for number in bad]


def test_bad_lines_are_named_skipped_or_handed_on(tmp_path: Path) -> None:
    path = tmp_path / "lines.json"
    path.write_bytes(b"[\r\n1\n{\n")
    splits = JsonFormat().parts(str(path), 100)
    with pytest.raises(
        RecordError,
        match=r"^line at byte 0 of .*lines.json is not valid JSON: Input data was truncated; got b'\[",
    ):
        drained(opened(splits, "fail"))
    skipping = opened(splits, "skip")
    assert drained(skipping) == ([1], [])
    assert (skipping.skipped, skipping.letters) == (2, 0)
    handing_on = opened(splits, "dead_letter")
    values, (first, second) = drained(handing_on)
    assert (values, handing_on.letters) == ([1], 2)
    assert (first.value, dict(first.place), first.pipeline, first.operator) == (
        b"[",
        {"path": str(path), "byte": "0"},
        "billing",
        "files",
    )
    assert (second.value, dict(second.place)["byte"]) == (b"{", "5")


@pytest.mark.parametrize(
    ("file_format", "lines", "values", "bad"),
    [
        (CsvFormat(types={"n": int}), b"n\n1\nx\n2,3\n4\n", [{"n": 1}, {"n": 4}], [b"x", b"2,3"]),
        (TextFormat(), b"a\n\xff\nb\n", ["a", "b"], [b"\xff"]),
    ],
    ids=["CSV", "text"],
)
def test_all_formats_of_lines_tell_bad_ones_from_the_others(
    tmp_path: Path, file_format: Any, lines: bytes, values: list[Any], bad: list[bytes]
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(lines)
    found, letters = drained(opened(file_format.parts(str(path), 100), "dead_letter", file_format))
    assert (found, [letter.value for letter in letters]) == (values, bad)


def test_a_program_keeps_bad_lines_beside_its_output(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("1\nx\n2\n")
    env = Env.get_execution_environment({"execution.target": "inline", "pipeline.progress": "off"})
    source = RecordFileSource(
        str(tmp_path / "in"),
        JsonFormat(),
        on_error="dead_letter",
        dead_letters=FileSink(str(tmp_path / "dead"), DeadLetterLines()),
    )
    found: list[int] = env.from_source(source).execute_and_collect(limit=5)
    assert sorted(found) == [1, 2]
    (letter,) = (json.loads(path.read_text()) for path in (tmp_path / "dead").glob("part-*"))
    assert (letter["value"], letter["place"][1]) == ("eA==", ["byte", "2"])


def test_dead_letters_of_files_need_a_sink_and_a_sink_needs_them() -> None:
    with pytest.raises(ConfigError, match=r"^file source on_error is 'dead_letter', but no target is set"):
        RecordFileSource("/in", JsonFormat(), on_error="dead_letter")
    with pytest.raises(ConfigError, match=r"^file source has dead_letters, but on_error is 'fail'"):
        RecordFileSource("/in", JsonFormat(), dead_letters=CollectSink("/out"))
