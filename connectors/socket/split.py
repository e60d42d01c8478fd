"""Split of the socket source: a connection to an address. It has no position: a socket cannot be rewound."""

from __future__ import annotations

from tidegate.connectors.spi import Split

__all__ = ["SocketSplit"]


class SocketSplit(Split, frozen=True, tag=1):
    """Where to connect."""

    host: str
    port: int
