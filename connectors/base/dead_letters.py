"""Dead letters: records that could not be read or written, with everything needed to send them again.

Example:
    >>> letter = DeadLetter(b"{", "Input data was truncated", "billing", "orders", (("offset", "7"),))
    >>> letter.value, dict(letter.place)
    (b'{', {'offset': '7'})
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from tidegate.classes import register_class
from tidegate.connectors.spi import Sink
from tidegate.errors import ConfigError
from tidegate.twophase.spi import WriterContext

__all__ = ["DeadLetter", "DeadLetterLines", "OnError", "RejectedRecords", "check_on_error"]

OnError = Literal["fail", "skip", "dead_letter"]


@register_class
class DeadLetter(msgspec.Struct, frozen=True):
    """What came, why it could not be used, and where it was found by which operator of which pipeline.

    `value`, `key` and `headers` are as they came; `place` tells where, such as topic, partition and offset.
    """

    value: bytes | None
    error: str
    pipeline: str
    operator: str
    place: tuple[tuple[str, str], ...]
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class DeadLetterLines:
    """Writes dead letters to files, as lines of JSON with bytes in base64."""

    suffix = ".jsonl"

    def encode(self, values: list[Any]) -> bytes:
        """The lines."""
        return msgspec.json.Encoder().encode_lines(values)


class RejectedRecords:
    """Counts the records that a writer rejects, and converts them to dead letters if these are wanted.

    Args:
        wanted: Whether dead letters are written.
        context: Whose records they are.
        largest: How many bytes a letter may have; of a record that is larger it has the beginning.
    """

    def __init__(self, wanted: bool, context: WriterContext, largest: int | None = None) -> None:
        self._wanted = wanted
        self._who = (context.pipeline, context.uid)
        self._largest = largest
        self.skipped = 0
        self.letters = 0
        if context.program is not None:
            metrics = context.program.get_metrics_group()
            metrics.gauge("skippedRecords", lambda: self.skipped)
            metrics.gauge("deadLetters", lambda: self.letters)

    def letter(self, record: Any, error: Exception) -> DeadLetter | None:
        """A record as text: its JSON, or its `repr` if it has none; None if it is omitted."""
        if not self._wanted:
            self.skipped += 1
            return None
        self.letters += 1
        try:
            value, form = msgspec.json.encode(record), "json"
        except Exception:
            value, form = repr(record).encode(errors="backslashreplace"), "repr"
        if self._largest is not None and len(value) > self._largest:
            value, form = value[: self._largest], "cut"
        return DeadLetter(value, f"{type(error).__name__}: {error}", *self._who, (("form", form),))


def check_on_error(what: str, on_error: str, dead_letters: Sink | str | None) -> None:
    """Check that a policy is valid, and that dead letters have a target exactly if the policy writes them.

    Raises:
        ConfigError: no.
    """
    if on_error not in get_args(OnError):
        raise ConfigError(f"{what} on_error is {on_error!r}; expected one of {', '.join(get_args(OnError))}")
    if on_error == "dead_letter" and dead_letters is None:
        raise ConfigError(f"{what} on_error is 'dead_letter', but no target is set; set dead_letters as well")
    if on_error != "dead_letter" and dead_letters is not None:
        raise ConfigError(
            f"{what} has dead_letters, but on_error is {on_error!r}, so no dead letters are written; set on_error "
            "to 'dead_letter'"
        )
