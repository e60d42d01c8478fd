"""Dead letters of Kafka: conversion of unreadable messages, and messages of dead letters.

In a topic a dead letter has the bytes, the key and the headers of the message, and additional headers that start with
`dead-letter.`: what went wrong, in which pipeline and operator, and where the message was. A reader of the topic
with the deserializer of the first topic, once that is corrected, reads it again.

Example:
    >>> letter = DeadLetter(b"{", "truncated", "billing", "source-1", (("topic", "orders"),))
    >>> letter_headers(letter)[-1]
    ('dead-letter.topic', b'orders')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.connectors.base.dead_letters import DeadLetter
from tidegate.connectors.kafka.serde import Message

__all__ = ["PREFIX", "letter_headers", "letter_of_message"]

PREFIX: Final = "dead-letter."


def letter_of_message(message: Message, error: Exception, pipeline: str, operator: str) -> DeadLetter:
    """The record of a message that cannot be read."""
    place = (
        ("topic", str(message.topic())),
        ("partition", str(message.partition())),
        ("offset", str(message.offset())),
        ("timestamp", str(message.timestamp()[1])),
    )
    headers = tuple(message.headers() or ())
    return DeadLetter(
        message.value(), f"{type(error).__name__}: {error}", pipeline, operator, place, message.key(), headers
    )


def letter_headers(letter: DeadLetter) -> Sequence[tuple[str, bytes | None]]:
    """The headers of the message and the additional ones."""
    said = (
        ("error", letter.error),
        ("pipeline", letter.pipeline),
        ("operator", letter.operator),
        *letter.place,
    )
    return (*letter.headers, *((PREFIX + name, text.encode()) for name, text in said))
