"""Kafka client of the services: creates a topic and waits for its leaders."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tidegate.clock import Clock
from tidegate.errors import UnavailableError

__all__ = ["create_topic"]

TIMEOUT_S = 20.0
POLL_INTERVAL_S = 0.02


def create_topic(address: str, topic: str, partitions: int, clock: Clock) -> None:
    """Create `topic` and wait until each of its partitions has a leader.

    Raises:
        UnavailableError: the broker did not do so in time, or refused.
    """
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    deadline = clock.monotonic() + TIMEOUT_S
    try:
        admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=TIMEOUT_S)[topic].result()
        while _led(admin, topic) < partitions and clock.monotonic() < deadline:
            clock.sleep(POLL_INTERVAL_S)
    except KafkaException as error:
        raise UnavailableError(
            f"topic {topic!r} was not created at {address}: {error}; is the broker running?"
        ) from error


def _led(admin: AdminClient, topic: str) -> int:
    partitions = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    return sum(partition.leader >= 0 for partition in partitions.values())
