"""Generated records: split, resumed, refused."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.base import RangeSplit
from tidegate.connectors.generator import GeneratorSource, NumberSequenceSource
from tidegate.connectors.spi import ReaderContext
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.errors import ConfigError, UserCodeError
from tidegate.ids import CheckpointId


def dealt(source: GeneratorSource[Any], deal: Any) -> list[RangeSplit]:
    enumerator = source.open_enumerator(deal, None)
    for reader in range(deal.parallelism):
        enumerator.request(reader)
    return sorted((split for some in deal.assigned.values() for split in some), key=lambda split: split.id)


def test_the_type_of_its_records_is_what_the_function_says_unless_the_program_says_another() -> None:
    def pair(number: int) -> tuple[str, int]:
        return str(number), number

    env = StreamExecutionEnvironment.get_execution_environment()
    made = GeneratorSource(pair, count=1)

    assert env.from_source(made).get_type() == Types.TUPLE([Types.STRING(), Types.LONG()])
    assert env.from_source(NumberSequenceSource(1, 2)).get_type() == Types.LONG()
    assert (
        env.from_source(made, type_info=Types.PICKLED_BYTE_ARRAY()).get_type() == Types.PICKLED_BYTE_ARRAY()
    )
    assert GeneratorSource(lambda number: number, count=1).produced_type is None


def test_a_count_is_cut_into_contiguous_ranges(deal: Any) -> None:
    splits = dealt(GeneratorSource(str, count=10, splits=3), deal)

    assert [list(split.head(100)) for split in splits] == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]


def test_without_a_count_splits_are_stripes(deal: Any) -> None:
    splits = dealt(GeneratorSource(str, count=None, splits=3), deal)

    assert [list(split.head(3)) for split in splits] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_fewer_records_than_splits_make_no_empty_splits(deal: Any) -> None:
    assert len(dealt(GeneratorSource(str, count=2, splits=5), deal)) == 2


def test_an_endless_source_resumes_at_its_position(deal: Any, reader_context: ReaderContext) -> None:
    source = GeneratorSource(lambda number: number, count=None, splits=2)
    first = source.open_reader(reader_context)
    first.add_splits(dealt(source, deal)[1:])
    first.poll(3)

    second = source.open_reader(reader_context)
    second.add_splits(first.snapshot(CheckpointId(1)))
    batch = second.poll(2)

    assert not source.bounded
    assert isinstance(batch, Batch)
    assert batch.values == [7, 9]


def test_the_rate_is_shared_by_the_splits(deal: Any, reader_context: ReaderContext, clock: Any) -> None:
    source = GeneratorSource(str, count=None, splits=2, rate_per_second=8)
    reader = source.open_reader(reader_context)
    reader.add_splits(dealt(source, deal))
    emitted = 0
    for _ in range(1_000):
        found = reader.poll(100)
        emitted += len(found) if isinstance(found, Batch) else 0
        clock.advance(10)

    assert emitted == 80


def test_a_failing_function_is_named_with_its_record(reader_context: ReaderContext, deal: Any) -> None:
    source = GeneratorSource(lambda number: 10 // (2 - number), count=4)
    reader = source.open_reader(reader_context)
    reader.add_splits(dealt(source, deal))

    with pytest.raises(UserCodeError, match=r"the generator function failed for record 2$") as caught:
        reader.poll(10)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": -1}, "generator count is -1; expected 0 or more, or None for ever"),
        ({"count": 1, "splits": 0}, "generator splits is 0; expected 1 or more"),
        ({"count": 1, "rate_per_second": 0.0}, r"generator rate_per_second is 0\.0; expected more than 0"),
        ({"count": 1, "rate_per_second": float("nan")}, "generator rate_per_second is nan"),
    ],
    ids=["count", "splits", "rate", "no number"],
)
def test_numbers_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GeneratorSource(str, **options)


def test_a_number_sequence_has_both_its_ends() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off"}
    )
    numbers = env.from_source(NumberSequenceSource(-3, 40), WatermarkStrategy.no_watermarks(), "numbers")

    assert sorted(numbers.execute_and_collect()) == list(range(-3, 41))


@pytest.mark.parametrize("ends", [(2, 1), ("1", 2)], ids=["backwards", "no number"])
def test_a_number_sequence_that_goes_nowhere_is_refused(ends: tuple[Any, Any]) -> None:
    with pytest.raises(
        ConfigError, match=r"number sequence is from .*; expected integers, end not before start"
    ):
        NumberSequenceSource(*ends)
