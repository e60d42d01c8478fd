"""Who gets which record, partition by partition."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.elements import Batch
from tidegate.errors import ConfigError, UserCodeError
from tidegate.ids import OperatorUid
from tidegate.keys import key_bytes, key_group
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.graph.transformations import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Hash,
    Partition,
    Rebalance,
    Rescale,
    Shuffle,
)
from tidegate.runtime.task import routing
from tidegate.runtime.task.routing import router


def edge(partition: Partition, sources: int, targets: int) -> JobEdge:
    return JobEdge("from", OperatorUid("from"), "to", partition, None, sources, targets, 128)


def reached(
    partition: Partition, sources: int, targets: int, records: int = 60
) -> list[dict[int, list[int]]]:
    """For each sender, what each receiver got of `records` records, in batches of seven."""
    result = []
    for index in range(sources):
        route = router(edge(partition, sources, targets), index)
        got: dict[int, list[int]] = {}
        for start in range(0, records, 7):
            batch = Batch(list(range(start, min(start + 7, records))))
            for target, share in route(batch):
                got.setdefault(target, []).extend(share.values)
        result.append(got)
    return result


@pytest.mark.parametrize("partition", [Rebalance(), Shuffle()], ids=["rebalance", "shuffle"])
def test_rebalance_and_shuffle_reach_every_receiver_from_every_sender(partition: Partition) -> None:
    for got in reached(partition, 2, 6):
        assert sorted(got) == [0, 1, 2, 3, 4, 5]
        assert sorted(value for values in got.values() for value in values) == list(range(60))


@pytest.mark.parametrize(
    ("sources", "targets", "expected"),
    [
        (2, 6, [{0, 1, 2}, {3, 4, 5}]),
        (2, 4, [{0, 1}, {2, 3}]),
        (4, 2, [{0}, {0}, {1}, {1}]),
        (2, 3, [{0}, {1, 2}]),
        (3, 2, [{0}, {0}, {1}]),
        (3, 3, [{0}, {1}, {2}]),
    ],
    ids=["2-6", "2-4", "4-2", "2-3", "3-2", "3-3"],
)
def test_rescale_deals_in_turn_to_receivers_of_the_senders_own(
    sources: int, targets: int, expected: list[set[int]]
) -> None:
    got = reached(Rescale(), sources, targets)

    assert [set(shares) for shares in got] == expected
    for shares in got:
        sizes = [len(values) for values in shares.values()]
        assert max(sizes) - min(sizes) <= 1


def test_global_gives_all_to_the_first() -> None:
    assert [set(got) for got in reached(Global(), 3, 4)] == [{0}, {0}, {0}]


def test_forward_stays_where_it_is() -> None:
    assert [set(got) for got in reached(Forward(), 3, 3)] == [{0}, {1}, {2}]


def test_broadcast_gives_each_receiver_every_record_once_and_a_value_of_its_own() -> None:
    (got,) = reached(Broadcast(), 1, 3)
    shares = router(edge(Broadcast(), 1, 2), 0)(Batch([[1]]))

    assert got == {receiver: list(range(60)) for receiver in range(3)}
    assert shares[0][1].values[0] == shares[1][1].values[0]
    assert shares[0][1].values[0] is not shares[1][1].values[0]


def test_two_runs_of_a_shuffle_deal_alike_and_two_senders_do_not() -> None:
    first, second = reached(Shuffle(), 2, 4)

    assert [first, second] == reached(Shuffle(), 2, 4)
    assert first != second


@pytest.mark.spec("003/DS-21")
def test_a_partitioner_says_who_gets_a_record() -> None:
    partition = Custom(lambda key, count: key % count, lambda value: value + 1)

    (got,) = reached(partition, 1, 3, records=6)

    assert got == {0: [2, 5], 1: [0, 3], 2: [1, 4]}


@pytest.mark.parametrize("answer", [3, -1, "0", True, None])
def test_a_partitioner_that_names_no_receiver_is_refused(answer: Any) -> None:
    route = router(edge(Custom(lambda key, count: answer, lambda value: value), 1, 3), 0)

    with pytest.raises(
        ConfigError, match=r"behind operator 'from' returned .*; expected an index from 0 to 2"
    ):
        route(Batch([1]))


def test_a_partitioner_that_fails_is_blamed_with_its_record() -> None:
    route = router(edge(Custom(lambda key, count: count // key, lambda value: value), 1, 3), 0)

    with pytest.raises(UserCodeError, match="partitioner behind operator 'from' failed on record 0: ZeroDiv"):
        route(Batch([2, 0]))


def test_a_key_goes_to_the_owner_of_its_group_also_when_more_keys_come_than_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routing, "_KNOWN_KEYS", 10)
    route = router(edge(Hash(lambda value: value), 1, 3), 0)
    keys = [0, "a", (1, "b"), *range(40), *"abcdefgh", *range(40)]

    got = {
        key: target
        for start in range(0, len(keys), 7)
        for target, share in route(Batch(keys[start : start + 7]))
        for key in share.keys or ()
    }

    assert got == {key: key_group(key_bytes(key), 128) * 3 // 128 for key in keys}
    assert set(got.values()) == {0, 1, 2}
