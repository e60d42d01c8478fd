from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.connectors.base import RangeSplit
from tidegate.connectors.files import RecordFileSource, TextFormat
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.kafka.split import KafkaSplit
from tidegate.connectors.spi import Split
from tidegate.errors import StateFormatError
from tidegate.ids import SplitId
from tidegate.runtime.spark.datasource.plan import Offset, cut, decode_splits, encode_splits, shares

NUMBERS = GeneratorSource(abs, 100)
FILES = RecordFileSource("/in", TextFormat())


@given(st.lists(st.integers(0, 50)), st.integers(1, 120))
def test_a_limit_is_used_up_and_not_exceeded(there: list[int], rows: int) -> None:
    wanted = shares(NUMBERS, there, rows=rows, splits=None)

    assert all(0 <= (share or 0) <= known for share, known in zip(wanted, there, strict=True))
    assert sum(share or 0 for share in wanted) == min(rows, sum(there))


@given(st.lists(st.integers(1, 50), min_size=1), st.integers(1, 120))
def test_nobody_gets_much_more_than_somebody_who_wants_more(there: list[int], rows: int) -> None:
    wanted = [share or 0 for share in shares(NUMBERS, there, rows=rows, splits=None)]
    hungry = [share for share, known in zip(wanted, there, strict=True) if share < known]

    assert all(share <= lacking + 1 for lacking in hungry for share in wanted)


def test_without_a_limit_everything_that_is_there_is_read() -> None:
    assert shares(NUMBERS, [3, None, 0], rows=None, splits=None) == [3, None, 0]
    assert shares(NUMBERS, [None, 2, None], rows=10, splits=None) == [4, 2, 4]


def test_splits_that_cannot_be_cut_are_read_whole_and_counted() -> None:
    left = [FileSplit(SplitId(str(number)), "/in/a", number, number + 1) for number in range(3)]
    assert cut(FILES, left, shares(FILES, [None] * 3, rows=1, splits=None)) == (left, [])
    assert cut(FILES, left, shares(FILES, [None] * 3, rows=None, splits=2)) == (left[:2], left[2:])


@given(st.integers(0, 5), st.integers(1, 4))
def test_pieces_and_rest_are_together_what_was_left(done: int, rows: int) -> None:
    left: Sequence[Any] = [RangeSplit(SplitId("0/2"), done, 10), RangeSplit(SplitId("1/2"), 10, 12)]
    read = list[int]()
    while left:
        found, left = cut(NUMBERS, left, shares(NUMBERS, [None] * len(left), rows=rows, splits=None))
        pieces: Sequence[Any] = found
        assert sum(len(piece.head(100)) for piece in pieces) <= rows
        read += [number for piece in pieces for number in piece.head(100)]

    assert sorted(read) == list(range(done, 12))


@pytest.mark.parametrize(
    "split",
    [
        RangeSplit(SplitId("0/1"), 3, None, 2),
        FileSplit(SplitId("a:0"), "/in/a", 0, 2**63 - 1, True),
        KafkaSplit.of("orders", 3, "AAA", at=7, stop=9),
    ],
    ids=["numbers", "file", "partition"],
)
def test_an_offset_survives_sparks_log(split: Split) -> None:
    offset = Offset(encode_splits([split]), encode_splits([split, split]), b"\x00\xff")
    logged = json.loads(json.dumps(offset.as_json()))

    assert logged == offset.as_json()
    assert Offset.of(logged) == offset
    assert decode_splits(logged["rest"], type(split)) == [split]
    assert Offset.of(Offset().as_json()) == Offset()


def test_an_offset_of_something_else_is_refused() -> None:
    with pytest.raises(
        StateFormatError, match=r"^the offset of a stream cannot be read \(.*\); expected version 1; run"
    ):
        Offset.of({"v": 2})
    with pytest.raises(
        StateFormatError,
        match=r"^an offset holds splits that are not FileSplit \(.*\); the query was started",
    ):
        decode_splits(encode_splits([RangeSplit(SplitId("0/1"), 3, 4)]), FileSplit)
