"""Where reading starts and stops, under PyFlink's names; what they mean is found out when a source starts.

Example:
    >>> KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST).kind
    'committed'
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple, Protocol

from tidegate.connectors.kafka.split import Place
from tidegate.errors import ConfigError

__all__ = [
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaTopicPartition",
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

    kind: Literal["earliest", "latest", "committed", "timestamp", "specific"]
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE
    timestamp_ms: int = 0
    given: Mapping[Place, int] = field(default_factory=dict)

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
        given = {Place(*place): offset for place, offset in offsets.items()}
        return KafkaOffsetsInitializer("specific", offset_reset_strategy, given=given)


class OffsetSource(Protocol):
    """What a broker knows of offsets."""

    def offsets(self, places: Collection[Place], spec: Spec) -> dict[Place, int]:
        """The offset of each partition; by time the end where no record is as new."""
        ...

    def committed(self, group: str, places: Collection[Place]) -> dict[Place, int]:
        """Where a group is, for partitions it has been in."""
        ...


def resolve(
    start: KafkaOffsetsInitializer, places: Collection[Place], cluster: OffsetSource, group: str | None
) -> dict[Place, int]:
    """An offset for every partition.

    Raises:
        ConfigError: none is known for a partition, and no strategy says what then.
    """
    if not places:
        return {}
    match start.kind:
        case "earliest" | "latest":
            return cluster.offsets(places, start.kind)
        case "timestamp":
            return cluster.offsets(places, start.timestamp_ms)
    found = {place: offset for place, offset in start.given.items() if place in places}
    missing = set(places) - found.keys()
    if missing and group is not None:
        found |= cluster.committed(group, missing)
        missing -= found.keys()
    if missing and start.reset is KafkaOffsetResetStrategy.NONE:
        raise ConfigError(
            f"kafka source has no offset for partition {min(missing)} of group {group!r}; expected a committed or a "
            "given one; start once with KafkaOffsetResetStrategy.EARLIEST or LATEST"
        )
    found |= (
        cluster.offsets(missing, "earliest" if start.reset.name == "EARLIEST" else "latest")
        if missing
        else {}
    )
    return found
