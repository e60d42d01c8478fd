"""Split of the Kafka source: one partition of one topic, from an offset on.

Example:
    >>> KafkaSplit.of("orders", 3, "AAA", at=7).id
    'orders:3'
"""

from __future__ import annotations

from typing import NamedTuple

from tidegate.connectors.spi import Split
from tidegate.ids import SplitId

__all__ = ["KafkaSplit", "PartitionId"]


class PartitionId(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"


class KafkaSplit(Split, frozen=True, tag_field="v", tag=1):
    """What is left of a partition: the records from offset `at` on, below `stop` if there is one.

    `topic_id` tells a topic from another one that was given its name later.
    """

    topic: str
    partition: int
    topic_id: str
    at: int
    stop: int | None = None

    @staticmethod
    def of(topic: str, partition: int, topic_id: str, *, at: int, stop: int | None = None) -> KafkaSplit:
        """A split under its id."""
        return KafkaSplit(SplitId(str(PartitionId(topic, partition))), topic, partition, topic_id, at, stop)

    @property
    def place(self) -> PartitionId:
        """Where it is."""
        return PartitionId(self.topic, self.partition)

    @property
    def done(self) -> bool:
        """Whether no offset is left."""
        return self.stop is not None and self.at >= self.stop
