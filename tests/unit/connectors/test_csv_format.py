"""Blocks of CSV that pyarrow reads come out as Python's own reader has them, value by value."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import BytesIO, StringIO
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.clock import ManualClock
from tidegate.connectors.files.csv_format import CsvFormat, Fields
from tidegate.connectors.files.reader import FileReader
from tidegate.connectors.spi import ReaderContext
from tidegate.elements import Batch
from tidegate.ids import CheckpointId, OperatorUid, Subtask

NAMES = ("text", "whole", "half", "truth", "made")
CONTEXT = ReaderContext(OperatorUid("files"), Subtask("files", 0), 1, ManualClock())
TYPES: dict[str, Any] = {"whole": int, "half": float, "truth": bool, "made": str.upper}

plain = (
    st.text("ab é\u2028", max_size=3),
    st.integers(-999, 999).map(str),
    st.sampled_from(["true", "False", ""]),
)
text = st.text("ab1 ,;\"'\t\v\0\r\ufeff\x1fé\u2028\U0001f600", max_size=4)
number = st.one_of(
    st.floats().map(str),
    st.integers(-(2**65), 2**65).map(str),
    st.text("0123456789+-_.eExX nNaAif()\t٣", max_size=6),
    st.sampled_from(["0x1F", "-0", "nan", "NaN(1)", "-inf", "1e400", "Infinity", "5e-324", "1_0", "", " "]),
)
truth = st.sampled_from(["true", "False", "TRUE", "", "tRue", " true", "1"])
USUAL = (plain[0], plain[1], plain[1], plain[2], plain[0])
ODD = (text, number, number, truth, text)


@st.composite
def lines(draw: st.DrawFn, names: tuple[str, ...], cut: str, quote: str) -> list[bytes]:
    """Lines that are usual but in one column, or in how they are quoted and end."""
    wild = draw(st.sampled_from([*names, None]))
    kinds = [(ODD if name == wild else USUAL)[NAMES.index(name)] for name in names]
    quoting = draw(st.sampled_from(["never", "some", "wrong"]))

    def field(values: st.SearchStrategy[str]) -> str:
        found = draw(values)
        if quoting == "never" or draw(st.booleans()):
            return found
        return f"{quote}{found if quoting == 'wrong' else found.replace(quote, 2 * quote)}{quote}"

    ends = draw(st.sampled_from([["\n"], ["\r\n", "\n"], ["\n", "\n", "\n\n", "\r", "\r\r\n"]]))
    rows = [cut.join(map(field, kinds)) + draw(st.sampled_from(ends)) for _ in range(draw(st.integers(1, 3)))]
    found = "".join(rows).removesuffix("\n").encode()
    return [each for each in BytesIO(found).readlines() if not each.isspace()]


def opened(names: tuple[str, ...], delimiter: str = ",", quote: str = '"') -> Fields:
    types = {name: make for name, make in TYPES.items() if name in names}
    return Fields(CsvFormat(names, types, None, delimiter, quote), names)


def listed(columns: list[Sequence[Any]]) -> str:
    """With types and signs, and NaN like itself."""
    return repr([list(column) for column in columns])


@given(st.data())
def test_what_pyarrow_makes_of_lines_is_what_python_makes_of_them(data: st.DataObject) -> None:
    names = data.draw(st.sampled_from([NAMES, NAMES[:1], NAMES[1:3], ("half", "text")]))
    marks = data.draw(st.sampled_from([(",", '"'), (";", "'"), ("\t", '"'), ("^", "]"), ("-", "\\")]))
    found = data.draw(lines(names, *marks))
    fields = opened(names, *marks)
    quick = fields.quickly(found)
    if quick is not None:
        assert listed(quick) == listed(fields.exactly(found))


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (NAMES[:2], "a,0x1F"),
        (NAMES[:2], "a,0XaB"),
        (("half", "text"), "nan(1),a"),
        (("half", "text"), "NAN(),a"),
        (NAMES[:1], "\ufeffa"),
        (NAMES[:1], '"a"b'),
        (NAMES[:1] + NAMES[4:], '"a\nb",c'),
        (("text", "half", "made"), 'a",",x"b,"'),
        (NAMES[:1], "a\rb"),
        (NAMES[:1], "a" * 140_000),
        (NAMES[:2], "a,+5"),
        (NAMES[:2], f"a,{2**63}"),
    ],
    ids=["0x", "0X", "nan", "NAN", "mark", "behind", "break", "amidst", "return", "long", "plus", "large"],
)
def test_what_pyarrow_takes_otherwise_is_left_to_python(names: tuple[str, ...], line: str) -> None:
    assert opened(names).quickly([f"{line}\n".encode()]) is None


@given(
    rows=st.lists(st.tuples(st.text("ab,\"'; é\u2028\0", max_size=5), st.integers(-(2**63), 2**63 - 1))),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_lines_that_a_writer_of_csv_writes_need_nobody_but_pyarrow(
    rows: list[tuple[str, int]], end: str
) -> None:
    text = StringIO(newline="")
    csv.writer(text, lineterminator=end).writerows([("head", 0), *rows])
    found = BytesIO(text.getvalue().encode()).readlines()
    fields = opened(NAMES[:2])

    quick = fields.quickly(found)

    assert quick is not None
    assert list(zip(*quick, strict=True)) == [("head", 0), *rows]


def test_lines_in_another_charset_are_read_in_columns_that_are_wanted() -> None:
    reading = CsvFormat(NAMES[:3], {"half": float}, columns=("half", "text"), charset="latin-1")
    lines = ["é,1,2.5\n".encode("latin-1")] * 200

    assert Fields(reading, NAMES[:3]).quickly(lines) is not None
    assert reading.decoder(())(lines) == [{"text": "é", "half": 2.5}] * 200


@pytest.mark.parametrize("polls", [0, 1, 8, 40])
def test_reading_goes_on_behind_any_line_of_a_block(tmp_path: Path, polls: int) -> None:
    path = tmp_path / "rows.csv"
    lines = [f'"n, {number}",{number}\r\n{" " * (number % 5 // 4)}\n'.encode() for number in range(9_000)]
    path.write_bytes(b"text,whole\n" + b"".join(lines))
    starts = accumulate(map(len, lines), initial=11)
    reading = CsvFormat(types={"whole": int})

    first = FileReader(reading, "fail", CONTEXT)
    first.add_splits(reading.parts(str(path), 1 << 30))
    found = list(islice(polled(first), polls))
    second = FileReader(reading, "fail", CONTEXT)
    second.add_splits(first.snapshot(CheckpointId(1)))
    found += polled(second)

    values = [{"text": f"n, {number}", "whole": number} for number in range(9_000)]
    assert [value for batch in found for value in batch.values] == values
    assert [at for batch in found if batch.origin for at in batch.origin.positions] == list(starts)[:-1]


def polled(reader: FileReader) -> Iterator[Batch]:
    while isinstance(batch := reader.poll(211), Batch):
        yield batch
