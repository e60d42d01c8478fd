"""Start and stop offsets of the Kafka source, under PyFlink's names; they are resolved when a source starts.

Example:
    >>> KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST).kind
    'committed'
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple, Protocol, TypeAlias

from tidegate.clock import SYSTEM_CLOCK, Clock
from tidegate.connectors.kafka.split import PartitionId
from tidegate.errors import ConfigError

__all__ = [
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaTopicPartition",
    "KnownOffsets",
    "OffsetSource",
    "Spec",
    "resolve",
]

Spec = Literal["earliest", "latest"] | int
"""What a broker can be asked for: an end of a partition, or the first record at a time."""


class KafkaTopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class KafkaOffsetResetStrategy(Enum):
    """What to do where an offset is not known."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """A way to find an offset for every partition."""

    kind: Literal["earliest", "latest", "committed", "timestamp", "specific", "custom"]
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE
    timestamp_ms: int = 0
    given: Mapping[PartitionId, int] = field(default_factory=dict)
    choose: Choose | None = None

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first record there is."""
        return KafkaOffsetsInitializer("earliest")

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """The end, as it is when the source starts."""
        return KafkaOffsetsInitializer("latest")

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Where the group is; elsewhere as the strategy says."""
        return KafkaOffsetsInitializer("committed", offset_reset_strategy)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record at or after a time in milliseconds; the end if there is none."""
        return KafkaOffsetsInitializer("timestamp", timestamp_ms=timestamp)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Given offsets; for partitions without one where the group is, or else as the strategy says."""
        given = {PartitionId(*place): offset for place, offset in offsets.items()}
        return KafkaOffsetsInitializer("specific", offset_reset_strategy, given=given)

    @staticmethod
    def custom(
        choose: Choose, offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST
    ) -> KafkaOffsetsInitializer:
        """What a function says, which may ask the cluster; for partitions it leaves out as with given offsets.

        Example:
            >>> def an_hour_ago(partitions, known):
            ...     return known.timestamp(partitions, known.now_ms - 3_600_000)
            >>> KafkaOffsetsInitializer.custom(an_hour_ago).kind
            'custom'
        """
        return KafkaOffsetsInitializer("custom", offset_reset_strategy, choose=choose)


class OffsetSource(Protocol):
    """Offset queries to a broker."""

    def offsets(self, places: Collection[PartitionId], spec: Spec) -> dict[PartitionId, int]:
        """The offset of each partition; by time the end where no record is as new."""
        ...

    def committed(self, group: str, places: Collection[PartitionId]) -> dict[PartitionId, int]:
        """Where a group is, for partitions it has been in."""
        ...


class KnownOffsets:
    """What a function that chooses offsets may ask; each answer costs a request."""

    def __init__(self, cluster: OffsetSource, group: str | None, now_ms: int) -> None:
        self._cluster = cluster
        self._group = group
        self.now_ms = now_ms
        """The time, in milliseconds."""

    def earliest(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """The first record there is."""
        return self._of(partitions, "earliest")

    def latest(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """The end, as it is now."""
        return self._of(partitions, "latest")

    def timestamp(
        self, partitions: Collection[KafkaTopicPartition], timestamp_ms: int
    ) -> dict[KafkaTopicPartition, int]:
        """The first record at or after a time; the end if there is none."""
        return self._of(partitions, timestamp_ms)

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """Where the source's group is, for partitions it has been in; none without a group."""
        if self._group is None:
            return {}
        found = self._cluster.committed(self._group, [PartitionId(*each) for each in partitions])
        return {KafkaTopicPartition(*place): offset for place, offset in found.items()}

    def _of(self, partitions: Collection[KafkaTopicPartition], spec: Spec) -> dict[KafkaTopicPartition, int]:
        found = self._cluster.offsets([PartitionId(*each) for each in partitions], spec)
        return {KafkaTopicPartition(*place): offset for place, offset in found.items()}


Choose: TypeAlias = Callable[[list[KafkaTopicPartition], KnownOffsets], Mapping[KafkaTopicPartition, int]]
"""Chooses offsets of partitions; it runs where splits are dealt, not where records are read."""


def resolve(
    start: KafkaOffsetsInitializer,
    places: Collection[PartitionId],
    cluster: OffsetSource,
    group: str | None,
    clock: Clock = SYSTEM_CLOCK,
) -> dict[PartitionId, int]:
    """An offset for every partition.

    Raises:
        ConfigError: none is known for a partition, and no strategy says what then; or a function chose what is none.
    """
    if not places:
        return {}
    match start.kind:
        case "earliest" | "latest":
            return cluster.offsets(places, start.kind)
        case "timestamp":
            return cluster.offsets(places, start.timestamp_ms)
    given = start.given
    if start.choose is not None:
        given = _chosen(start.choose, places, KnownOffsets(cluster, group, clock.now_ms()))
    found = {place: offset for place, offset in given.items() if place in places}
    missing = set(places) - found.keys()
    if missing and group is not None:
        found |= cluster.committed(group, missing)
        missing -= found.keys()
    if missing and start.reset is KafkaOffsetResetStrategy.NONE:
        raise ConfigError(
            f"kafka source has no offset for partition {min(missing)} of group {group!r}; expected a committed or "
            "a configured offset; start once with KafkaOffsetResetStrategy.EARLIEST or LATEST"
        )
    found |= (
        cluster.offsets(missing, "earliest" if start.reset.name == "EARLIEST" else "latest")
        if missing
        else {}
    )
    return found


def _chosen(choose: Choose, places: Collection[PartitionId], known: KnownOffsets) -> dict[PartitionId, int]:
    answer = choose([KafkaTopicPartition(*place) for place in sorted(places)], known)
    chosen = {PartitionId(*partition): offset for partition, offset in answer.items()}
    for place, offset in chosen.items():
        if type(offset) is not int or offset < 0:
            raise ConfigError(
                f"kafka source: the function that chooses offsets returned {offset!r} for partition {place}; "
                "expected an integer, 0 or greater; omit the partition if it has none"
            )
    return chosen
