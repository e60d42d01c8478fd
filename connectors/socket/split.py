"""The one part of a socket: a connection to an address. It has no position, because a socket cannot go back."""

from __future__ import annotations

from tidegate.connectors.spi import Split

__all__ = ["SocketSplit"]


class SocketSplit(Split, frozen=True, tag=1):
    """Where to connect."""

    host: str
    port: int
