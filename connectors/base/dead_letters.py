"""Records that could not be read or written, with all that is needed to send them again.

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

__all__ = ["DeadLetter", "DeadLetterLines", "OnError", "check_on_error"]

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


def check_on_error(what: str, on_error: str, dead_letters: Sink | str | None) -> None:
    """Whether a policy is one, and dead letters have a place to go exactly if there will be some.

    Raises:
        ConfigError: no.
    """
    if on_error not in get_args(OnError):
        raise ConfigError(f"{what} on_error is {on_error!r}; expected one of {', '.join(get_args(OnError))}")
    if on_error == "dead_letter" and dead_letters is None:
        raise ConfigError(
            f"{what} on_error is 'dead_letter', but nothing says where they go; set dead_letters as well"
        )
    if on_error != "dead_letter" and dead_letters is not None:
        raise ConfigError(
            f"{what} has dead_letters, but on_error is {on_error!r}, so there will be none; set it to 'dead_letter'"
        )
