"""Handling of records that cannot be made messages, according to the sink's `on_error`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tidegate.connectors.base.dead_letters import OnError, RejectedRecords
from tidegate.connectors.kafka.record_schema import KafkaRecordSerializationSchema, Message
from tidegate.errors import RecordError
from tidegate.twophase.spi import WriterContext

__all__ = ["Encode", "Policy", "RefusedRecords"]

Encode: TypeAlias = Callable[[Any], Message | None]
"""Makes a message of a record; None where nothing is to be written."""
Policy: TypeAlias = tuple[OnError, str | None]
"""What to do, and the topic of dead letters."""


class RefusedRecords(RejectedRecords):
    """Applies `on_error` to records that encoders refuse: raise, skip and count, or write a dead letter."""

    def __init__(self, policy: Policy, context: WriterContext, largest: int) -> None:
        self._on_error, topic = policy
        super().__init__(topic is not None, context, largest)
        self._write = (
            None if topic is None else KafkaRecordSerializationSchema.dead_letters(topic).encoder(largest)
        )

    def lenient(self, encode: Encode) -> Encode:
        """The encoder that does so."""
        if self._on_error == "fail":
            return encode

        def attempt(record: Any) -> Message | None:
            try:
                return encode(record)
            except RecordError as error:
                letter = self.letter(record, error)
                return None if letter is None or self._write is None else self._write(letter)

        return attempt
