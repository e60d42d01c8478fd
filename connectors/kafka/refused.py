"""What becomes of records that cannot be made messages, as the sink's `on_error` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tidegate.connectors.base.dead_letters import OnError
from tidegate.connectors.kafka.letters import letter_of_record
from tidegate.connectors.kafka.record_schema import KafkaRecordSerializationSchema, Message
from tidegate.errors import RecordError
from tidegate.twophase.spi import WriterContext

__all__ = ["Encode", "Policy", "RefusedRecords"]

Encode: TypeAlias = Callable[[Any], Message | None]
"""Makes a message of a record; None where nothing is to be written."""
Policy: TypeAlias = tuple[OnError, str | None]
"""What to do, and the topic of dead letters."""


class RefusedRecords:
    """Lets encoders fail as they do, or leaves out and counts what they refuse, or makes dead letters of it."""

    def __init__(self, policy: Policy, context: WriterContext, largest: int) -> None:
        self._on_error, topic = policy
        self._who = (context.pipeline, context.uid)
        self._largest = largest
        self._write = (
            None if topic is None else KafkaRecordSerializationSchema.dead_letters(topic).encoder(largest)
        )
        self.skipped = 0
        self.letters = 0
        if context.program is not None:
            metrics = context.program.get_metrics_group()
            metrics.gauge("skippedRecords", lambda: self.skipped)
            metrics.gauge("deadLetters", lambda: self.letters)

    def lenient(self, encode: Encode) -> Encode:
        """The encoder that does so."""
        if self._on_error == "fail":
            return encode

        def attempt(record: Any) -> Message | None:
            try:
                return encode(record)
            except RecordError as error:
                return self._instead(record, error)

        return attempt

    def _instead(self, record: Any, error: RecordError) -> Message | None:
        if self._write is None:
            self.skipped += 1
            return None
        self.letters += 1
        return self._write(letter_of_record(record, error, *self._who, self._largest))
