"""Which lines are read, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.clock import ManualClock
from tidegate.connectors.files import TextFileSource, TextFormat
from tidegate.connectors.files.reader import FileReader
from tidegate.connectors.files.split import parts
from tidegate.connectors.spi import ReaderContext
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.errors import ConfigError, RecordError, UnavailableError
from tidegate.ids import OperatorUid, Subtask

CONTEXT = ReaderContext(OperatorUid("files"), Subtask("files", 0), 1, ManualClock())


@given(text=st.text(alphabet="ab\n", max_size=40), most=st.integers(1, 12))
def test_every_line_is_read_once_however_the_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, text: str, most: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut"
    path.write_text(text)
    reader = FileReader(TextFormat(), "fail", CONTEXT)
    reader.add_splits(parts(str(path), size=len(text), most=most))
    reader.no_more_splits()

    lines: list[str] = []
    while isinstance(batch := reader.poll(3), Batch):
        lines += batch.values

    assert lines == text.removesuffix("\n").split("\n") if text else lines == []


@pytest.mark.parametrize("target", ["inline", "embedded"])
def test_a_program_reads_a_file(target: str, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("".join(f"line {number}\n" for number in range(1_000)))
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": target, "pipeline.progress": "off", "parallelism.default": 2}
    )

    lines = list(env.read_text_file(f"file://{tmp_path}/words").map(str.upper).execute_and_collect())

    assert lines == [f"LINE {number}" for number in range(1_000)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("/data", "UTF-16"), "charset 'UTF-16' does not end lines with byte 10"),
        (("/data", "Klingon"), "charset 'Klingon' is unknown"),
        (("hdfs:///data",), "path 'hdfs:///data' is not on this machine"),
        (("/data", "UTF-8", 0), "part_bytes is 0; expected at least 1"),
    ],
)
def test_wrong_descriptions_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TextFileSource(*arguments)


def test_a_file_that_is_not_there_is_named() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off"}
    )

    with pytest.raises(ConfigError, match="file '/nowhere' does not exist; expected a file or a directory"):
        list(env.read_text_file("/nowhere").execute_and_collect())


def test_a_line_that_cannot_be_decoded_is_named_by_its_place(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"good\n\xff\n")
    reader = FileReader(TextFormat(), "fail", CONTEXT)
    reader.add_splits(parts(str(path), size=7, most=100))

    with pytest.raises(
        RecordError, match=r"line at byte 5 of .*text is not valid UTF-8: invalid start byte; set its charset"
    ):
        reader.poll(10)


def test_a_file_that_went_away_can_be_tried_again(tmp_path: Path) -> None:
    reader = FileReader(TextFormat(), "fail", CONTEXT)
    reader.add_splits(parts(str(tmp_path / "gone"), size=7, most=100))

    with pytest.raises(UnavailableError, match="gone cannot be read"):
        reader.poll(10)
