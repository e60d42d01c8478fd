"""Where records go behind each partitioner, on every executor."""

from __future__ import annotations

import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tidegate.datastream import DataStream, MapFunction, Partitioner, StreamExecutionEnvironment
from tidegate.errors import ConfigError, JobFailedError


def numbered(number: int, values: tuple[Any, ...]) -> tuple[Any, ...]:
    return number, *values


class Where(MapFunction):
    """Adds the index of the subtask to what came so far."""

    def open(self, runtime_context: Any) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*value, self.index)


class Modulo(Partitioner):
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


Deal = Callable[[DataStream], DataStream]


def ways(
    env: StreamExecutionEnvironment, deal: Deal, senders: int, receivers: int, count: int = 60
) -> dict[int, list[tuple[int, int]]]:
    """For each sender the (record, receiver) pairs."""
    (arrived,) = all_ways(env, [deal], senders, receivers, count)
    return arrived


def all_ways(
    env: StreamExecutionEnvironment, deals: list[Deal], senders: int, receivers: int, count: int = 60
) -> list[dict[int, list[tuple[int, int]]]]:
    """The same for several ways of dealing, in one program."""
    sent = (
        env.from_collection([(number,) for number in range(count)])
        .set_parallelism(1)
        .rebalance()
        .map(Where())
        .set_parallelism(senders)
    )
    first, *rest = [
        deal(sent)
        .map(Where())
        .set_parallelism(receivers)
        .map(partial(numbered, n))
        .set_parallelism(receivers)
        for n, deal in enumerate(deals)
    ]
    arrived: list[dict[int, list[tuple[int, int]]]] = [defaultdict(list) for _ in deals]
    for n, number, sender, receiver in first.union(*rest).execute_and_collect():
        arrived[n][sender].append((number, receiver))
    return arrived


@pytest.mark.spec("004/AX-004", "004/PRT-003")
@pytest.mark.spec("003/DS-18", "003/DS-20")
def test_rescale_gives_each_of_two_senders_three_receivers_of_its_own(
    anywhere: StreamExecutionEnvironment,
) -> None:
    deals: list[Deal] = [DataStream.rescale, DataStream.rebalance, DataStream.shuffle]

    rescaled, rebalanced, shuffled = all_ways(anywhere, deals, 2, 6, count=600)

    receivers = [{to for _, to in rescaled[sender]} for sender in (0, 1)]
    assert receivers == [{0, 1, 2}, {3, 4, 5}]
    for sender in (0, 1):
        counts = [sum(to == each for _, to in rescaled[sender]) for each in receivers[sender]]
        assert counts == [100, 100, 100]
        assert {to for _, to in rebalanced[sender]} == set(range(6))
        assert {to for _, to in shuffled[sender]} == set(range(6))


@pytest.mark.spec("002/AX-07")
@pytest.mark.parametrize(
    ("senders", "receivers", "expected"),
    [(2, 4, [{0, 1}, {2, 3}]), (4, 2, [{0}, {0}, {1}, {1}]), (2, 3, [{0}, {1, 2}])],
    ids=["2-4", "4-2", "2-3"],
)
def test_rescale_connects_fixed_groups(
    anywhere: StreamExecutionEnvironment, senders: int, receivers: int, expected: list[set[int]]
) -> None:
    rescaled = ways(anywhere, DataStream.rescale, senders, receivers)

    assert [{to for _, to in rescaled[sender]} for sender in range(senders)] == expected


@pytest.mark.spec("002/AX-06")
@pytest.mark.spec("003/DS-19")
def test_rebalance_deals_8_records_of_one_sender_to_4_receivers_2_each(
    anywhere: StreamExecutionEnvironment,
) -> None:
    (pairs,) = ways(anywhere, DataStream.rebalance, 1, 4, count=8).values()

    assert [sum(to == receiver for _, to in pairs) for receiver in range(4)] == [2, 2, 2, 2]


@pytest.mark.spec("000/EX-09")
@pytest.mark.spec("003/DS-13")
def test_behind_rebalance_every_flat_map_feeds_all_three_maps(anywhere: StreamExecutionEnvironment) -> None:
    numbers = anywhere.from_collection([(number,) for number in range(24)]).set_parallelism(1)
    flat = (
        numbers.rebalance().flat_map(lambda value: [value]).set_parallelism(2).map(Where()).set_parallelism(2)
    )
    mapped = flat.rebalance().map(Where()).set_parallelism(3)

    found = list(mapped.execute_and_collect())

    assert {(sender, receiver) for _, sender, receiver in found} == {
        (s, r) for s in range(2) for r in range(3)
    }
    assert sorted(number for number, *_ in found) == list(range(24))


@pytest.mark.spec("004/AX-005")
@pytest.mark.spec("003/DS-16")
def test_broadcast_gives_every_receiver_every_record_once(anywhere: StreamExecutionEnvironment) -> None:
    (pairs,) = ways(anywhere, DataStream.broadcast, 1, 3, count=10).values()

    assert sorted(pairs) == [(number, to) for number in range(10) for to in range(3)]


@pytest.mark.spec("004/PRT-001")
@pytest.mark.spec("003/DS-15")
def test_global_gives_the_first_receiver_everything(anywhere: StreamExecutionEnvironment) -> None:
    arrived = ways(anywhere, DataStream.global_, 2, 3)

    assert {to for pairs in arrived.values() for _, to in pairs} == {0}


@pytest.mark.spec("004/PRT-008")
@pytest.mark.parametrize("partitioner", [Modulo(), lambda key, count: key % count], ids=["class", "function"])
def test_a_custom_partitioner_is_told_the_key_and_the_number_of_receivers(
    anywhere: StreamExecutionEnvironment, partitioner: Any
) -> None:
    arrived = ways(anywhere, lambda s: s.partition_custom(partitioner, lambda value: value[0]), 2, 3)

    assert all(to == number % 3 for pairs in arrived.values() for number, to in pairs)


@pytest.mark.spec("004/AX-006")
def test_forward_between_unequal_parallelism_is_refused(anywhere: StreamExecutionEnvironment) -> None:
    with pytest.raises(ConfigError, match=r"parallelism 2\) to .* needs equal parallelism; use rebalance"):
        ways(anywhere, DataStream.forward, 2, 3)


@pytest.mark.spec("004/PRT-002")
@pytest.mark.spec("003/DS-17")
def test_forward_keeps_records_in_their_subtask(anywhere: StreamExecutionEnvironment) -> None:
    arrived = ways(anywhere, DataStream.forward, 2, 2)

    assert all(to == sender for sender, pairs in arrived.items() for _, to in pairs)


def test_a_partitioner_that_is_no_function_is_refused(anywhere: StreamExecutionEnvironment) -> None:
    with pytest.raises(ConfigError, match="partition_custom takes a function; got str"):
        anywhere.from_collection([1]).partition_custom("modulo", lambda value: value)


def test_a_broadcast_record_changed_by_one_receiver_is_whole_for_the_others(
    anywhere: StreamExecutionEnvironment,
) -> None:
    class Grow(MapFunction):
        def map(self, value: list[int]) -> list[int]:
            value.append(len(value))
            return value

    grown = anywhere.from_collection([[7]]).set_parallelism(1).broadcast().map(Grow()).set_parallelism(3)

    assert list(grown.execute_and_collect()) == [[7, 1]] * 3


def grouped(pairs: Iterator[Any]) -> dict[Any, set[int]]:
    result: dict[Any, set[int]] = defaultdict(set)
    for key, subtask in pairs:
        result[key].add(subtask)
    return result


def test_equal_keys_of_different_types_meet_in_one_subtask(anywhere: StreamExecutionEnvironment) -> None:
    keys: list[Any] = [(1,), (1.0,), (True,), (2,), (2.0,)] * 4

    arrived = anywhere.from_collection(keys).key_by(lambda value: value[0]).map(Where())

    assert all(len(where) == 1 for where in grouped(arrived.execute_and_collect()).values())


class Plain:
    """Is told apart by identity alone."""


@pytest.mark.spec("002/AX-57")
@pytest.mark.parametrize(
    ("selector", "what"),
    [
        (lambda value: [value], "list .* cannot be a key: it is a collection; use a tuple"),
        (
            lambda value: array.array("i", [value]),
            "array .* cannot be a key: it is a collection; use a tuple",
        ),
        (lambda value: {value: 1}, "dict .* cannot be a key: it is a collection; use a tuple"),
        (lambda value: float("nan"), "float nan cannot be a key: it is not equal to itself; replace it"),
        (lambda value: Plain(), "Plain .* cannot be a key: it is compared by identity; use a frozen"),
    ],
    ids=["list", "array", "dict", "nan", "object"],
)
def test_what_changes_or_does_not_equal_itself_or_has_no_hash_of_its_own_is_no_key(
    anywhere: StreamExecutionEnvironment, selector: Any, what: str
) -> None:
    keyed = anywhere.from_collection([1, 2]).key_by(selector)

    with pytest.raises(JobFailedError, match=what):
        list(keyed.reduce(lambda one, other: one).execute_and_collect())
