"""Control messages between two worker processes of a run, such as credit."""

from __future__ import annotations

import msgspec

from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.frames import Frame

__all__ = ["Granted", "Hello", "decode"]


class Hello(msgspec.Struct, frozen=True, tag=True):
    """Who opened this connection."""

    worker: int


class Granted(msgspec.Struct, frozen=True, tag=True):
    """Records of this channel are worked off."""

    channel: ChannelId
    records: int
    limit: int
    """Credit: how many batches may be in flight from now on."""


_DECODER: msgspec.msgpack.Decoder[Hello | Granted | Frame] = msgspec.msgpack.Decoder(Hello | Granted | Frame)


def decode(data: bytes | bytearray) -> Hello | Granted | Frame:
    """Read a message of another worker."""
    return _DECODER.decode(data)
