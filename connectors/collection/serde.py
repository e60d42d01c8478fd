"""File format of collected values: a header, then one frame per batch (length in 4 bytes, then the batch).

Values go through the self-describing codec, so tuples, dates and big numbers come back as what they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidegate.errors import StateCorruptError, StateFormatError
from tidegate.serde import codec_for

__all__ = ["Frames", "frames_in"]

_MAGIC = b"TGF1"
_LENGTH = 4


@dataclass(frozen=True)
class Frames:
    """Encodes batches as frames; each carries the header, so files are frames put one after another."""

    suffix: str = ".frames"

    def encode(self, values: list[Any]) -> bytes:
        """One frame.

        Raises:
            RecordError: a value would not come back the same.
        """
        body = codec_for(None).encode_batch(values)
        return _MAGIC + len(body).to_bytes(_LENGTH) + body


def frames_in(data: bytes, name: str) -> Iterator[Any]:
    """The values of all frames, in order.

    Raises:
        StateFormatError: another version wrote it.
        StateCorruptError: it ends within a frame.
    """
    at, codec = 0, codec_for(None)
    while at < len(data):
        if data[at : at + len(_MAGIC)] != _MAGIC:
            raise StateFormatError(
                f"collected file {name} is not of version 1; read it with the version that wrote it"
            )
        start = at + len(_MAGIC) + _LENGTH
        at = start + int.from_bytes(data[start - _LENGTH : start])
        if start > len(data) or at > len(data):
            raise StateCorruptError(f"collected file {name} is truncated; run the job again")
        yield from codec.decode_batch(data[start:at])
