"""File sink: what may be written, what files are called, and what its options refuse."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from tidegate.connectors.files import (
    CsvFormat,
    CsvLines,
    FileSink,
    FileSinkOptions,
    JsonLines,
    TextLines,
)
from tidegate.connectors.spi import SupportsBranch, SupportsCommit
from tidegate.elements import Batch
from tidegate.errors import ConfigError, RecordError
from tidegate.ids import CheckpointId
from tidegate.twophase.spi import Committable, CommitterContext, WriterContext


class Level(IntEnum):
    LOW = 1


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
anything = (
    plain
    | st.tuples(plain)
    | st.binary()
    | st.floats()
    | st.integers()
    | st.dictionaries(st.integers(), plain)
)


@given(st.lists(anything, max_size=4))
def test_json_lines_come_back_the_same_or_are_refused(values: list[Any]) -> None:
    try:
        data = JsonLines().encode(values)
    except RecordError:
        return
    lines = data.split(b"\n")

    assert lines.pop() == b""
    assert repr([msgspec.json.decode(line) for line in lines]) == repr(values)


@given(plain)
def test_json_lines_take_everything_json_has(value: Any) -> None:
    assert msgspec.json.decode(JsonLines().encode([value])) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((1, 2), r"record \(1, 2\) has at \$ a tuple, which JSON would change; expected dict, list"),
        ({"a": [0, b"x"]}, r"has at \$\.a\[1\] a bytes, which JSON would change"),
        ({"a": {1: 2}}, r"has at \$\.a the key 1, which JSON turns into a string; expected keys of type str"),
        (
            [float("nan")],
            r"has at \$\[0\] nan, which JSON cannot represent; expected a finite number or None",
        ),
        (2**63, r"has at \$ an integer of more than 64 bits; expected a smaller one, or its str"),
        (Decimal(1), "a Decimal, which JSON would change"),
        (Level.LOW, "a Level, which JSON would change"),
        (OrderedDict(a=1), "a OrderedDict, which JSON would change"),
        ({"\ud800": 1}, "has half a surrogate pair"),
        ({"a": "\ud800"}, "has half a surrogate pair, which UTF-8 cannot encode; expected valid Unicode"),
        (["x" * 200, {1}], r"record \['x+\.\.\. has at \$\[1\] a set"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_json_lines_name_what_they_refuse(value: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        JsonLines().encode([{"fine": 1}, value])


def test_a_record_within_itself_is_refused() -> None:
    record: list[Any] = []
    record.append(record)

    with pytest.raises(
        RecordError, match="a record is nested too deeply for JSON; expected a flat one; map it first"
    ):
        JsonLines().encode([record])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1, "record 1 is a int; expected a string; map it with str"),
        ("a\nb", "has a line break and would be read as two records; expected one line; use JsonLines"),
        ("\udfff", "has half a surrogate pair"),
    ],
    ids=["no text", "two lines", "no unicode"],
)
def test_text_lines_name_what_they_refuse(value: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        TextLines().encode(["fine", value])


ROWS = st.fixed_dictionaries(
    {
        "a": st.none() | st.text(min_size=1).filter(str.isprintable),
        "b": st.none() | st.integers(),
        "c": st.booleans(),
    }
)


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_csv_lines_come_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    lines = CsvLines(("a", "b", "c"))
    decode = CsvFormat(types={"a": str, "b": int, "c": bool}).decoder((lines.head(),))

    assert decode(lines.encode(rows).splitlines(keepends=True)) == rows


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": 1}, r"record \{'a': 1\} does not have the fields of the file; expected a dict of a, b"),
        ([1, 2], "does not have the fields of the file"),
        ({"a": 1, "c": 2}, "does not have the fields of the file"),
        ({"a": "x\ny", "b": 1}, "has a line break, which readers reject; expected one line; use JsonLines"),
        (
            {"a": "", "b": 1},
            "has an empty string, which would be read as None; expected a non-empty string, or None",
        ),
        ({"a": "\ud800", "b": 1}, "has half a surrogate pair"),
        ({"a": b"x", "b": 1}, "has a bytes; expected str, int, float, bool or None; map it first"),
    ],
    ids=["a field too few", "no dict", "other field", "line break", "empty", "no unicode", "other type"],
)
def test_csv_lines_name_what_they_refuse(value: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        CsvLines(("a", "b")).encode([{"a": 1, "b": 2}, value])


def test_csv_fields_need_different_names() -> None:
    with pytest.raises(ConfigError, match=r"CSV field names are \('a', 'a'\); expected different names"):
        CsvLines(("a", "a"))


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(ConfigError, match="file sink compression is 'zip'; expected one of gzip, bzip2, xz"):
        FileSinkOptions(compression="zip")  # type: ignore[arg-type]  # as a program without types would


def test_a_file_is_named_after_lineage_branch_subtask_and_checkpoint(
    tmp_path: Path,
    writer_context: Callable[..., WriterContext],
    committer_context: CommitterContext,
    committable: Callable[..., Committable],
) -> None:
    sink = FileSink(tmp_path, options=FileSinkOptions(prefix="orders", suffix=".json"))
    writer = sink.open_writer(writer_context(subtask=3))
    writer.write(Batch([{"id": 1}]))
    work = committable(writer.prepare(CheckpointId(17)))

    sink.open_committer(committer_context).commit([work])

    final = tmp_path / "orders-1f.0-e8891171-3-17.json"
    assert [path for path in tmp_path.iterdir() if path.is_file()] == [final]
    assert final.read_text() == '{"id":1}\n'
    assert (work.describe, work.records) == (str(final), 1)


def test_a_relative_directory_means_the_one_where_the_program_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = pickle.loads(pickle.dumps(FileSink("out")))
    monkeypatch.chdir("/")

    assert sink.directory == tmp_path / "out"


def test_abilities_are_what_they_promise() -> None:
    sink = FileSink("out", options=FileSinkOptions(on_branch="append"))

    assert isinstance(sink, SupportsCommit)
    assert isinstance(sink, SupportsBranch)
    assert (sink.on_branch, FileSink("out").on_branch) == ("append", "refuse")
    assert sink.delivery == "exactly-once"


def test_an_unknown_branch_behaviour_is_refused() -> None:
    with pytest.raises(ConfigError, match="file sink on_branch is 'ignore'; expected 'refuse' or 'append'"):
        FileSinkOptions(on_branch="ignore")  # type: ignore[arg-type]  # as a program without types would


def test_a_prefix_that_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, writer_context: Callable[..., WriterContext]
) -> None:
    sink = FileSink(tmp_path, options=FileSinkOptions(prefix="../up"))

    with pytest.raises(ConfigError, match=r"file prefix '\.\./up' cannot be part of a file name"):
        sink.open_writer(writer_context())
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_would_grow_too_long_is_refused_before_anything_is_written(
    tmp_path: Path, writer_context: Callable[..., WriterContext]
) -> None:
    sink = FileSink(tmp_path, options=FileSinkOptions(prefix="p" * 220))

    with pytest.raises(ConfigError, match=r"is too long for a file name; got 2\d\d bytes"):
        sink.open_writer(writer_context())
    assert list(tmp_path.iterdir()) == []
