"""Kafka clients of the demo: the payment producer and the creation of topics."""

from __future__ import annotations

import threading
from typing import Final

from confluent_kafka import Producer

from tidegate.errors import UnavailableError
from tidegate.runtime.cli.demo.payments import Payments
from tidegate.testing.kafka_demo.layout import partition_of

__all__ = ["Feed"]

_TICK_S: Final = 0.02
_FLUSH_S: Final = 30.0


class Feed:
    """Sends payments at an even rate, up to its limit, in a separate thread.

    Args:
        brokers: Where to.
        topic: Which one.
        records: How many.
        rate: How many a second.
    """

    def __init__(self, brokers: str, topic: str, records: int, rate: float) -> None:
        # An idempotent producer sends nothing twice, so the offsets at which partitions end are known.
        self._producer = Producer(
            {"bootstrap.servers": brokers, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
        )
        self._topic = topic
        self._payments = Payments(records)
        self._rate = rate
        self._closed = threading.Event()
        self._allowed = 0
        self._unsent = records
        self._thread = threading.Thread(target=self._send, daemon=True, name="demo-feed")
        self._thread.start()

    def allow(self, payments: int) -> None:
        """Send this many, counted from the first."""
        self._allowed = payments

    def close(self) -> None:
        """Send no more."""
        self._closed.set()
        self._thread.join()

    def check(self) -> None:
        """Make sure that all are sent.

        Raises:
            UnavailableError: the brokers did not take some.
        """
        self._thread.join(_FLUSH_S)
        if self._unsent:
            raise UnavailableError(
                f"the brokers did not accept {self._unsent} payments of the demo; check that they are running"
            )

    def _send(self) -> None:
        sent, produce = 0, self._producer.produce
        while sent < self._payments.count and not self._closed.wait(_TICK_S):
            due = min(sent + max(1, int(self._rate * _TICK_S)), self._allowed)
            for number in range(sent, due):
                payment = self._payments.payment(number)
                produce(
                    self._topic,
                    self._payments(number),
                    payment.account,
                    partition_of(payment.account),
                )
            sent = due
            self._producer.poll(0)
        self._unsent = self._payments.count - sent + self._producer.flush(_FLUSH_S)
