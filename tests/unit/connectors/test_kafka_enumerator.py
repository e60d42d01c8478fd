"""Which partitions are dealt, to whom, and what becomes of topics that change; against a cluster in memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.clock import ManualClock
from tidegate.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from tidegate.connectors.kafka._client import Topic
from tidegate.connectors.kafka.enumerator import KafkaEnumerator, Plan, owner_of
from tidegate.connectors.kafka.offsets import KnownOffsets, Spec, resolve
from tidegate.connectors.kafka.split import KafkaSplit, PartitionId
from tidegate.errors import ConfigError, StateFormatError, UnavailableError
from tidegate.ids import CheckpointId

ONE = CheckpointId(1)
EARLIEST = KafkaOffsetsInitializer.earliest()
PLAN = Plan(("orders",), None, frozenset(), None, EARLIEST, None, "fail", 1_000)


@dataclass
class Memory:
    """Topics with ends; every partition begins at offset 2."""

    known: dict[str, Topic] = field(default_factory=dict)
    ends: dict[PartitionId, int] = field(default_factory=dict)
    groups: dict[str, dict[PartitionId, int]] = field(default_factory=dict)

    def add(self, name: str, partitions: int, id: str = "first") -> None:
        self.known[name] = Topic(id, tuple(range(partitions)))

    def names(self) -> list[str]:
        return sorted(self.known)

    def topics(self, names: Collection[str]) -> dict[str, Topic]:
        return {name: self.known[name] for name in names if name in self.known}

    def offsets(self, places: Collection[PartitionId], spec: Spec) -> dict[PartitionId, int]:
        at = {"earliest": 2}.get(spec) if isinstance(spec, str) else spec
        return {place: self.ends.get(place, 100) if at is None else at for place in places}

    def committed(self, group: str, places: Collection[PartitionId]) -> dict[PartitionId, int]:
        return {place: at for place, at in self.groups.get(group, {}).items() if place in places}


@pytest.fixture
def cluster() -> Memory:
    memory = Memory()
    memory.add("orders", 3)
    return memory


def started(deal: Any, cluster: Memory, plan: Plan = PLAN, restored: bytes | None = None) -> KafkaEnumerator:
    connect: Any = lambda: cluster  # noqa: E731 # stands for a connection
    enumerator = KafkaEnumerator(deal, plan, connect, restored)
    enumerator.start()
    return enumerator


def all_dealt(enumerator: KafkaEnumerator, deal: Any) -> dict[str, KafkaSplit]:
    for reader in range(deal.parallelism):
        enumerator.request(reader)
    return {split.id: split for splits in deal.assigned.values() for split in splits}


@pytest.mark.spec("003/SRC-08", "003/TC-21")
def test_every_partition_goes_to_its_owner_from_the_first_record_on(deal: Any, cluster: Memory) -> None:
    dealt = all_dealt(started(deal, cluster), deal)

    assert dealt == {f"orders:{n}": KafkaSplit.of("orders", n, "first", at=2) for n in range(3)}
    for reader, splits in deal.assigned.items():
        assert all(owner_of(split.place, deal.parallelism) == reader for split in splits)
    assert deal.complete == [], "there may be more to come"


def by_partition(
    partitions: list[KafkaTopicPartition], known: KnownOffsets
) -> dict[KafkaTopicPartition, int]:
    """The group's place, two before the end, and nothing: what a program may want of three partitions."""
    first, second, _ = partitions
    behind = {place: offset - 2 for place, offset in known.latest([second]).items()}
    return known.committed([first]) | behind


def test_a_function_chooses_offsets_and_what_it_leaves_out_is_read_as_the_strategy_says(
    deal: Any, cluster: Memory
) -> None:
    cluster.groups["billing"] = {PartitionId("orders", 0): 9}
    start = KafkaOffsetsInitializer.custom(by_partition, KafkaOffsetResetStrategy.EARLIEST)
    dealt = all_dealt(started(deal, cluster, replace(PLAN, start=start, group="billing")), deal)

    assert {name: split.at for name, split in dealt.items()} == {"orders:0": 9, "orders:1": 98, "orders:2": 2}


def test_a_function_that_chooses_may_ask_by_time_and_for_the_beginning(cluster: Memory) -> None:
    places = [PartitionId("orders", number) for number in range(2)]
    asked: list[object] = []

    def choose(partitions: list[KafkaTopicPartition], known: KnownOffsets) -> dict[KafkaTopicPartition, int]:
        asked.append((partitions, known.committed(partitions)))
        first, second = partitions
        return known.timestamp([first], known.now_ms - 60) | known.earliest([second])

    chosen = resolve(KafkaOffsetsInitializer.custom(choose), places, cluster, None, ManualClock(100))

    assert chosen == {places[0]: 40, places[1]: 2}
    assert asked == [([("orders", 0), ("orders", 1)], {})]


def test_what_a_function_chooses_has_to_be_an_offset(deal: Any, cluster: Memory) -> None:
    start = KafkaOffsetsInitializer.custom(lambda partitions, known: {partitions[1]: -1})
    with pytest.raises(
        ConfigError,
        match=r"the function that chooses offsets returned -1 for partition orders:1; expected an integer",
    ):
        started(deal, cluster, replace(PLAN, start=start))


@given(topic=st.text(min_size=1), partitions=st.integers(1, 40), readers=st.integers(1, 9))
def test_readers_get_shares_that_differ_by_one_at_most(topic: str, partitions: int, readers: int) -> None:
    shares = [0] * readers
    for partition in range(partitions):
        shares[owner_of(PartitionId(topic, partition), readers)] += 1
    assert max(shares) - min(shares) <= 1


def test_bounded_splits_end_where_the_partition_ended_at_the_start_and_empty_ones_are_not_read(
    deal: Any, cluster: Memory
) -> None:
    cluster.ends = {
        PartitionId("orders", 0): 7,
        PartitionId("orders", 1): 2,
        PartitionId("orders", 2): 3,
    }
    dealt = all_dealt(started(deal, cluster, replace(PLAN, stop=KafkaOffsetsInitializer.latest())), deal)

    assert {name: (split.at, split.stop) for name, split in dealt.items()} == {
        "orders:0": (2, 7),
        "orders:2": (2, 3),
    }
    assert deal.complete == [0, 1], "a bounded source promises that this is all"


def test_a_pattern_takes_whole_names(deal: Any, cluster: Memory) -> None:
    cluster.add("orders-eu", 1)
    cluster.add("old-orders", 1)
    dealt = all_dealt(started(deal, cluster, replace(PLAN, topics=(), pattern=r"orders(-\w+)?")), deal)

    assert dealt.keys() == {"orders:0", "orders:1", "orders:2", "orders-eu:0"}


def test_single_partitions_are_read_alone(deal: Any, cluster: Memory) -> None:
    dealt = all_dealt(
        started(deal, cluster, replace(PLAN, topics=(), partitions=frozenset({PartitionId("orders", 1)}))),
        deal,
    )
    assert dealt.keys() == {"orders:1"}


def test_a_partition_that_does_not_exist_is_named(deal: Any, cluster: Memory) -> None:
    with pytest.raises(ConfigError, match=r"^kafka source: partition orders:9 does not exist; create it"):
        started(deal, cluster, replace(PLAN, topics=(), partitions=frozenset({PartitionId("orders", 9)})))


def test_a_topic_that_does_not_exist_is_named(deal: Any, cluster: Memory) -> None:
    with pytest.raises(
        ConfigError, match=r"^kafka source: topic 'order' does not exist; create it, or check"
    ):
        started(deal, cluster, replace(PLAN, topics=("order",)))


@pytest.mark.spec("003/TC-21")
@pytest.mark.parametrize(
    ("start", "at"),
    [
        (KafkaOffsetsInitializer.latest(), [100, 100, 100]),
        (KafkaOffsetsInitializer.timestamp(55), [55, 55, 55]),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST), [2, 40, 2]),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST), [100, 40, 100]),
        (KafkaOffsetsInitializer.offsets({KafkaTopicPartition("orders", 0): 9}), [9, 40, 2]),
        (
            KafkaOffsetsInitializer.offsets(
                {KafkaTopicPartition("orders", 0): 9}, KafkaOffsetResetStrategy.LATEST
            ),
            [9, 40, 100],
        ),
    ],
    ids=["latest", "timestamp", "group or earliest", "group or latest", "given", "given or latest"],
)
def test_reading_starts_where_it_is_told_to(
    deal: Any, cluster: Memory, start: KafkaOffsetsInitializer, at: list[int]
) -> None:
    cluster.groups = {"billing": {PartitionId("orders", 1): 40}}
    dealt = all_dealt(started(deal, cluster, replace(PLAN, start=start, group="billing")), deal)
    assert [dealt[f"orders:{n}"].at for n in range(3)] == at


@pytest.mark.spec("003/TC-19")
@pytest.mark.parametrize(
    ("group", "message"),
    [("billing", "partition orders:1 of group 'billing'"), (None, "partition orders:0 of group None")],
    ids=["group", "no group"],
)
def test_a_group_without_an_offset_is_named_if_nothing_says_what_then(
    deal: Any, cluster: Memory, group: str | None, message: str
) -> None:
    cluster.groups = {"billing": {PartitionId("orders", 0): 40}}
    plan = replace(PLAN, start=KafkaOffsetsInitializer.committed_offsets(), group=group)
    with pytest.raises(ConfigError, match=rf"^kafka source has no offset for {message}; expected"):
        started(deal, cluster, plan)


@pytest.mark.spec("003/SRC-07")
def test_a_new_partition_is_found_dealt_once_and_read_from_its_beginning(deal: Any, cluster: Memory) -> None:
    enumerator = started(deal, cluster, replace(PLAN, start=KafkaOffsetsInitializer.latest()))
    all_dealt(enumerator, deal)
    cluster.add("orders", 4)
    first, second = enumerator.discover(), enumerator.discover()
    enumerator.discovered(first)
    enumerator.discovered(second)

    assert sorted(split.id for splits in deal.assigned.values() for split in splits) == [
        f"orders:{n}" for n in range(4)
    ]
    new = next(split for splits in deal.assigned.values() for split in splits if split.partition == 3)
    assert new.at == 2, "records may have come before it was found"


@pytest.mark.spec("004/EOS-013")
def test_after_a_restore_start_offsets_mean_nothing_and_what_was_read_is_not_read_again(
    deal: Any, cluster: Memory
) -> None:
    first = started(deal, cluster)
    dealt = all_dealt(first, deal)
    checkpoint = first.snapshot(ONE)
    read = [replace_at(dealt["orders:0"], 50), replace_at(dealt["orders:1"], 60)]  # orders:2 is finished
    deal.assigned.clear()
    cluster.add("orders", 4)

    again = started(deal, cluster, replace(PLAN, start=KafkaOffsetsInitializer.latest()), checkpoint)
    again.give_back(read)
    dealt = all_dealt(again, deal)

    assert {name: split.at for name, split in dealt.items()} == {
        "orders:0": 50,
        "orders:1": 60,
        "orders:3": 2,
    }


def replace_at(split: KafkaSplit, at: int) -> KafkaSplit:
    return KafkaSplit.of(*split.place, split.topic_id, at=at, stop=split.stop)


@pytest.mark.parametrize("removed", [True, False], ids=["removed", "made anew"])
def test_a_topic_that_changed_since_the_checkpoint_fails_the_start_by_name(
    deal: Any, cluster: Memory, removed: bool
) -> None:
    checkpoint = started(deal, cluster).snapshot(ONE)
    del cluster.known["orders"]
    if not removed:
        cluster.add("orders", 3, "second")
    words = "was removed since" if removed else "was removed and created again since"
    with pytest.raises(
        ConfigError, match=rf"^kafka source: topic 'orders' {words} the checkpoint.*'drop'.*'reset'"
    ):
        started(deal, cluster, PLAN, checkpoint)


@pytest.mark.parametrize(("policy", "ids"), [("drop", set()), ("reset", {"orders:0", "orders:1"})])
def test_a_topic_made_anew_is_dropped_or_read_from_its_beginning(
    deal: Any, cluster: Memory, policy: Any, ids: set[str]
) -> None:
    first = started(deal, cluster)
    left = [replace_at(split, 50) for split in all_dealt(first, deal).values()]
    checkpoint = first.snapshot(ONE)
    deal.assigned.clear()
    cluster.add("orders", 2, "second")
    again = started(deal, cluster, replace(PLAN, on_topic_change=policy), checkpoint)
    again.give_back(left)
    dealt = all_dealt(again, deal)

    assert dealt.keys() == ids
    assert {(split.at, split.topic_id) for split in dealt.values()} <= {(2, "second")}


@pytest.mark.parametrize("policy", ["drop", "reset"])
def test_a_removed_topic_is_left_behind_if_the_program_says_so(
    deal: Any, cluster: Memory, policy: Any
) -> None:
    first = started(deal, cluster)
    left = list(all_dealt(first, deal).values())
    checkpoint = first.snapshot(ONE)
    deal.assigned.clear()
    cluster.known.clear()
    again = started(deal, cluster, replace(PLAN, on_topic_change=policy), checkpoint)
    again.give_back(left)
    assert all_dealt(again, deal) == {}


def test_a_topic_that_is_not_asked_for_any_more_is_left_out(deal: Any, cluster: Memory) -> None:
    cluster.add("refunds", 1)
    first = started(deal, cluster, replace(PLAN, topics=("orders", "refunds")))
    left = list(all_dealt(first, deal).values())
    checkpoint = first.snapshot(ONE)
    deal.assigned.clear()
    again = started(deal, cluster, replace(PLAN, topics=("refunds",)), checkpoint)
    again.give_back(left)
    assert all_dealt(again, deal).keys() == {"refunds:0"}


@pytest.mark.parametrize(("id", "words"), [(None, "removed"), ("second", "removed and created again")])
def test_a_topic_that_changes_while_it_is_read_makes_the_source_start_again(
    deal: Any, cluster: Memory, id: str | None, words: str
) -> None:
    enumerator = started(deal, cluster)
    del cluster.known["orders"]
    if id is not None:
        cluster.add("orders", 3, id)
    with pytest.raises(
        UnavailableError, match=rf"^kafka source: topic 'orders' was {words} while it was read"
    ):
        enumerator.discovered(enumerator.discover())


def test_state_of_another_version_is_refused(deal: Any, cluster: Memory) -> None:
    with pytest.raises(
        StateFormatError, match=r"^the state of a kafka source cannot be read .*expected version 1"
    ):
        started(deal, cluster, PLAN, b"\x81\xa1v\x63")
