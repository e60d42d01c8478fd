"""Enumerator of the Kafka source: discovers and assigns partitions, and detects removed or recreated topics.

Every partition is in one place: waiting here, with one reader, or read to its end. Which reader gets it follows from
its name alone, so a partition found later goes where it would have gone at the start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import xxhash

from tidegate.connectors.kafka.offsets import KafkaOffsetsInitializer, resolve
from tidegate.connectors.kafka.options import OnTopicChange
from tidegate.connectors.kafka.split import KafkaSplit, PartitionId
from tidegate.connectors.spi import EnumeratorContext, Remaining, SplitEnumerator
from tidegate.errors import ConfigError, StateFormatError, UnavailableError
from tidegate.ids import CheckpointId, SplitId

if TYPE_CHECKING:
    from tidegate.connectors.kafka._client import Cluster, Topic

__all__ = ["Found", "KafkaEnumerator", "Plan", "owner_of", "remaining_splits"]


@dataclass(frozen=True)
class Plan:
    """What to look for, and where to read it from and to."""

    topics: tuple[str, ...]
    pattern: str | None
    partitions: frozenset[PartitionId]
    group: str | None
    start: KafkaOffsetsInitializer
    stop: KafkaOffsetsInitializer | None
    on_topic_change: OnTopicChange
    interval_ms: int | None

    def wanted(self, name: str) -> bool:
        """Whether a topic is asked for."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, name) is not None
        return name in self.topics or any(place.topic == name for place in self.partitions)

    def places(self, name: str, partitions: Collection[int]) -> list[PartitionId]:
        """The partitions of a topic that are asked for."""
        found = [PartitionId(name, partition) for partition in partitions]
        return [place for place in found if place in self.partitions] if self.partitions else found


class Known(msgspec.Struct, frozen=True):
    """A topic whose partitions were assigned."""

    id: str
    partitions: frozenset[int]


class _State(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    topics: dict[str, Known]
    pending: list[KafkaSplit]


@dataclass(frozen=True, slots=True)
class Found:
    """What a look at the cluster brought: topics as they are now, and new partitions with their first offsets."""

    topics: Mapping[str, Known]
    splits: Sequence[KafkaSplit]


class KafkaEnumerator(SplitEnumerator[KafkaSplit]):
    """Deals partitions; looks for new ones from time to time.

    Args:
        context: How to reach the readers.
        plan: What to look for.
        connect: Opens the cluster; called by `start`.
        restored: The snapshot of an earlier enumerator.

    Raises:
        StateFormatError: the snapshot was written by another version.
    """

    def __init__(
        self,
        context: EnumeratorContext[KafkaSplit],
        plan: Plan,
        connect: Callable[[], Cluster],
        restored: bytes | None,
    ) -> None:
        self._context = context
        self._plan = plan
        self._connect = connect
        self._cluster: Cluster | None = None
        self._first = restored is None
        before = _State({}, []) if restored is None else _decode(restored)
        self._known: Mapping[str, Known] = {
            name: topic for name, topic in before.topics.items() if plan.wanted(name)
        }
        self._pending: dict[SplitId, KafkaSplit] = {}
        self._asked: set[int] = set()
        self.give_back(before.pending)

    @property
    def discovery_interval_ms(self) -> int | None:
        """How often to look."""
        return self._plan.interval_ms if self._plan.stop is None else None

    def start(self) -> None:
        """Connect and look; a topic that is gone or new under its name is handled as the plan says.

        Raises:
            ConfigError: a topic is not there or may not be read, or it changed and the plan says `fail`.
            UnavailableError: no broker answers.
        """
        self._cluster = self._connect()
        topics = self._cluster.topics(self._names(self._cluster))
        if self._first or self._plan.on_topic_change == "fail":
            self._check_all_there(topics)
        self._known = {
            name: known
            for name, before in self._known.items()
            if (known := self._as_it_is(name, before, topics.get(name))) is not None
        }
        self._pending = {split.id: split for split in self._pending.values() if self._knows(split)}
        self.discovered(self.discover())

    def discover(self) -> Found:
        """Look for partitions that were not dealt yet, and where to begin with them."""
        assert self._cluster is not None
        known, plan, cluster = self._known, self._plan, self._cluster
        topics = {
            name: Known(topic.id, frozenset(place.partition for place in plan.places(name, topic.partitions)))
            for name, topic in cluster.topics(self._names(cluster)).items()
        }
        new = [
            PartitionId(name, partition)
            for name, topic in topics.items()
            for partition in sorted(topic.partitions - (known[name].partitions if name in known else set()))
        ]
        # What comes later is new as a whole; only at the first look does "now" or a group mean anything.
        start = resolve(
            plan.start if self._first else KafkaOffsetsInitializer.earliest(), new, cluster, plan.group
        )
        stop = resolve(plan.stop, new, cluster, plan.group) if plan.stop is not None else {}
        splits = [
            KafkaSplit.of(*place, topics[place.topic].id, at=start[place], stop=stop.get(place))
            for place in new
        ]
        return Found(topics, splits)

    def discovered(self, found: Found) -> None:
        """Assign new partitions.

        Raises:
            UnavailableError: a topic changed under the running readers; they have to begin again.
        """
        for name, known in self._known.items():
            now = found.topics.get(name)
            if now is None or now.id != known.id:
                raise UnavailableError(
                    f"kafka source: topic {name!r} was "
                    f"{'removed' if now is None else 'removed and created again'} while it was read; the source "
                    "restarts"
                )
        dealt = {
            PartitionId(name, partition)
            for name, topic in self._known.items()
            for partition in topic.partitions
        }
        self._first = False
        self._known = {
            name: Known(
                topic.id, topic.partitions | (self._known[name].partitions if name in self._known else set())
            )
            for name, topic in found.topics.items()
        }
        # Two looks may have begun before either was taken in.
        new = [split for split in found.splits if split.place not in dealt and not split.done]
        self._pending |= {split.id: split for split in new}
        self._deal()

    def request(self, reader: int) -> None:
        """Assign the reader its partitions, now and whenever new ones appear."""
        self._asked.add(reader)
        self._deal()
        if self.discovery_interval_ms is None:
            self._context.no_more_splits(reader)

    def give_back(self, splits: Sequence[KafkaSplit]) -> None:
        """Take splits back, unless their topic is gone or not asked for any more."""
        self._pending |= {split.id: split for split in splits if self._knows(split)}

    def snapshot(self, checkpoint: CheckpointId) -> bytes:
        """What is known, and what waits for a reader."""
        return msgspec.msgpack.encode(_State(dict(self._known), list(self._pending.values())))

    def pending(self) -> list[SplitId]:
        """What waits for a reader."""
        return list(self._pending)

    def _knows(self, split: KafkaSplit) -> bool:
        known = self._known.get(split.topic)
        return known is not None and known.id == split.topic_id

    def _names(self, cluster: Cluster) -> set[str]:
        if self._plan.pattern is not None:
            return {name for name in cluster.names() if self._plan.wanted(name)}
        return set(self._plan.topics) | {place.topic for place in self._plan.partitions}

    def _check_all_there(self, topics: Mapping[str, Topic]) -> None:
        """Everything asked for by name exists, or did when a checkpoint was taken."""
        plan = self._plan
        there = {place for name, topic in topics.items() for place in plan.places(name, topic.partitions)}
        for missing in [
            *(f"topic {name!r}" for name in plan.topics if name not in topics and name not in self._known),
            *(
                f"partition {place}"
                for place in sorted(plan.partitions - there)
                if place.topic not in self._known
            ),
        ]:
            raise ConfigError(
                f"kafka source: {missing} does not exist; create it, or check its name and the permission to "
                "describe it"
            )

    def _as_it_is(self, name: str, before: Known, now: Topic | None) -> Known | None:
        """What of a topic that a checkpoint knew counts as dealt; None if nothing does."""
        if now is not None and now.id == before.id:
            return before
        if self._plan.on_topic_change == "fail":
            raise ConfigError(
                f"kafka source: topic {name!r} was {'removed' if now is None else 'removed and created again'} "
                "since the checkpoint; its unread records are lost; set on_topic_change to 'drop' to continue "
                "without it, or to 'reset' to read the new topic from the beginning"
            )
        if now is None or self._plan.on_topic_change == "reset":
            return None
        return Known(now.id, frozenset(now.partitions))

    def _deal(self) -> None:
        for reader in sorted(self._asked):
            share = [
                split
                for split in self._pending.values()
                if owner_of(split.place, self._context.parallelism) == reader
            ]
            for split in share:
                del self._pending[split.id]
            if share:
                self._context.assign(reader, share)


def owner_of(place: PartitionId, readers: int) -> int:
    """The reader of a partition: partitions of a topic go round, topics begin at different readers.

    Example:
        >>> sorted(owner_of(PartitionId("orders", partition), 3) for partition in range(3))
        [0, 1, 2]
    """
    return (xxhash.xxh32_intdigest(place.topic.encode()) + place.partition) % readers


def remaining_splits(remaining: Remaining) -> tuple[Mapping[str, Known], dict[PartitionId, KafkaSplit]]:
    """The topics in a checkpoint, and the remaining splits of partitions that are not read to their end.

    Raises:
        StateFormatError: it is not a checkpoint of a Kafka source, or of another version.
    """
    state = _decode(remaining.coordinator)
    held = [msgspec.msgpack.decode(split, type=KafkaSplit) for split in remaining.splits]
    return state.topics, {split.place: split for split in (*held, *state.pending)}


def _decode(data: bytes) -> _State:
    try:
        return msgspec.msgpack.decode(data, type=_State)
    except msgspec.MsgspecError as error:
        raise StateFormatError(
            f"the state of a kafka source cannot be read ({error}); expected version 1; restore an older checkpoint "
            "or run the version that wrote it"
        ) from error
