"""Running reductions and aggregations per key."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import pytest

from tidegate.common import Row
from tidegate.datastream import KeyedStream, ReduceFunction, StreamExecutionEnvironment
from tidegate.errors import ConfigError, JobFailedError, RecordError
from tidegate.runtime.stream.aggregations import Aggregation, Projection


class Named(NamedTuple):
    key: str
    amount: int


class Struct(msgspec.Struct, frozen=True):
    key: str
    amount: int


@dataclasses.dataclass
class Data:
    key: str
    amount: int


RECORDS = [("a", 3, "first"), ("b", 9, "only"), ("a", 1, "second"), ("a", 3, "third"), ("a", 1, "fourth")]


def keyed(env: StreamExecutionEnvironment) -> KeyedStream:
    return env.from_collection(RECORDS).set_parallelism(1).key_by(lambda record: record[0])


def by_key(records: Iterable[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    result: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for key, *rest in records:
        result[key].append(tuple(rest))
    return result


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("sum", [(3, "first"), (4, "first"), (7, "first"), (8, "first")]),
        ("min", [(3, "first"), (1, "first"), (1, "first"), (1, "first")]),
        ("max", [(3, "first"), (3, "first"), (3, "first"), (3, "first")]),
        ("min_by", [(3, "first"), (1, "second"), (1, "second"), (1, "second")]),
        ("max_by", [(3, "first"), (3, "first"), (3, "first"), (3, "first")]),
    ],
    ids=["sum", "min", "max", "min_by", "max_by"],
)
def test_each_record_is_answered_by_what_its_key_came_to(
    anywhere: StreamExecutionEnvironment, method: str, expected: list[tuple[int, str]]
) -> None:
    results = by_key(getattr(keyed(anywhere), method)(1).execute_and_collect())

    assert results == {"a": expected, "b": [(9, "only")]}


class Add(ReduceFunction):
    def reduce(self, value1: tuple[str, int, str], value2: tuple[str, int, str]) -> tuple[str, int, str]:
        return value1[0], value1[1] + value2[1], value1[2] + value2[2]


@pytest.mark.parametrize("add", [Add(), Add().reduce], ids=["class", "function"])
def test_a_reduction_meets_the_records_of_a_key_in_order(
    anywhere: StreamExecutionEnvironment, add: Any
) -> None:
    results = by_key(keyed(anywhere).reduce(add).execute_and_collect())

    assert results["a"][-1] == (8, "firstsecondthirdfourth")
    assert results["b"] == [(9, "only")]


def test_what_a_reduction_emits_is_no_longer_its_state(anywhere: StreamExecutionEnvironment) -> None:
    def extend(before: list[int], value: list[int]) -> list[int]:
        before.extend(value)
        return before

    lists = anywhere.from_collection([[1], [2], [3]]).set_parallelism(1).key_by(lambda value: 0)

    assert list(lists.reduce(extend).execute_and_collect()) == [[1], [1, 2], [1, 2, 3]]


def test_plain_numbers_are_their_own_field(anywhere: StreamExecutionEnvironment) -> None:
    numbers = anywhere.from_collection([5, 7, 2]).set_parallelism(1).key_by(lambda value: 0)

    assert list(numbers.sum().execute_and_collect()) == [5, 12, 14]


def test_a_projection_keeps_fields_in_the_order_named(anywhere: StreamExecutionEnvironment) -> None:
    projected = anywhere.from_collection(RECORDS).project(2, 0)

    assert sorted(projected.execute_and_collect())[0] == ("first", "a")
    assert Projection((1, 1))(Row("x", 4)) == (4, 4)


@pytest.mark.parametrize(
    ("first", "second", "field", "summed"),
    [
        ((1, 2), (3, 4), 1, (1, 6)),
        ((1, 2), (3, 4), -1, (1, 6)),
        ([1, 2], [3, 4], 0, [4, 2]),
        ({"n": 1, "m": 0}, {"n": 2, "m": 9}, "n", {"n": 3, "m": 0}),
        (Row(1, 2), Row(3, 4), 1, Row(1, 6)),
        (Named("a", 1), Named("a", 2), "amount", Named("a", 3)),
        (Named("a", 1), Named("a", 2), 1, Named("a", 3)),
        (Struct("a", 1), Struct("a", 2), "amount", Struct("a", 3)),
        (Data("a", 1), Data("a", 2), "amount", Data("a", 3)),
        (1.5, 2, 0, 3.5),
    ],
    ids=[
        "tuple",
        "tuple from behind",
        "list",
        "dict",
        "row",
        "named",
        "named by place",
        "struct",
        "data",
        "number",
    ],
)
def test_a_field_is_found_in_every_kind_of_record_and_the_first_record_stays_whole(
    first: Any, second: Any, field: int | str, summed: Any
) -> None:
    before = repr(first)

    result = Aggregation("sum", field)(first, second)

    assert (result, type(result)) == (summed, type(summed))
    assert repr(first) == before


@pytest.mark.parametrize(
    ("record", "field"),
    [((1,), 1), ((1,), "n"), ({"n": 1}, "m"), ([1], "n"), (5, 1), (5, "n"), (None, 0), (Data("a", 1), 0)],
    ids=[
        "place",
        "name of tuple",
        "key",
        "name of list",
        "number",
        "name of number",
        "nothing",
        "place of data",
    ],
)
def test_a_field_that_a_record_lacks_is_named(record: Any, field: int | str) -> None:
    with pytest.raises(RecordError, match=f"has no field {field!r}; name one"):
        Aggregation("max", field)(record, record)


def test_a_missing_field_fails_the_job_with_record_and_field(anywhere: StreamExecutionEnvironment) -> None:
    with pytest.raises(JobFailedError, match=r"'b', 9, 'only'|'a', .* has no field 7|has no field 7"):
        list(keyed(anywhere).sum(7).execute_and_collect())


@pytest.mark.parametrize("field", [1.5, None, True], ids=repr)
def test_a_field_is_a_position_or_a_name(anywhere: StreamExecutionEnvironment, field: Any) -> None:
    with pytest.raises(ConfigError, match="expected a position or a name"):
        keyed(anywhere).sum(field)


@pytest.mark.parametrize("how", ["sum", "min", "max", "min_by", "max_by"])
@pytest.mark.parametrize(
    ("first", "second", "field"),
    [
        ((1, 2), (3, 4), 1),
        ((3, 9, 5), (3, 4, 6), 1),
        ((1, 2), (3, 4), -1),
        ((1, 2, 3), (3, 4), 1),
        (Named("a", 1), Named("a", 2), 1),
        (Row(1, 2), Row(3, 4), 1),
        (1.5, 2, 0),
    ],
    ids=["last", "middle", "from behind", "longer", "named", "row", "number"],
)
def test_an_aggregation_made_ready_for_many_records_does_the_same(
    how: Any, first: Any, second: Any, field: int
) -> None:
    aggregation = Aggregation(how, field)

    result, plain = aggregation.combination(first, second), aggregation(first, second)

    assert (result, type(result)) == (plain, type(plain))


def test_a_tuple_too_short_is_named_also_where_many_are_combined() -> None:
    with pytest.raises(RecordError, match="has no field 1; name one"):
        Aggregation("sum", 1).combination((1, 2), (3,))
