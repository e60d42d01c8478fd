"""Reader of the socket source: reads one connection without blocking."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Sequence
from typing import Final

from tidegate.connectors.socket.split import SocketSplit
from tidegate.connectors.spi import Finished, NotYet, Poll, SourceReader
from tidegate.elements import Batch
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId

__all__ = ["SocketTextReader"]

_CHUNK: Final = 64 * 1024
_CONNECT_S: Final = 5.0
_PAUSE_MS: Final = 10
_RETRY_MS: Final = 1_000


class SocketTextReader(SourceReader[SocketSplit]):
    """Cuts what a connection sends into lines; what follows the last delimiter is a line once the connection ends."""

    def __init__(self, delimiter: bytes, max_retries: int) -> None:
        self._delimiter = delimiter
        self._max_retries = max_retries
        self._split: SocketSplit | None = None
        self._connection: socket.socket | None = None
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._failures = 0
        self._done = False

    def add_splits(self, splits: Sequence[SocketSplit]) -> None:
        """Remember where to connect."""
        for split in splits:
            self._split = split

    def no_more_splits(self) -> None:
        """A reader without a connection to make is done."""
        self._done = self._split is None

    def poll(self, limit: int) -> Poll:
        """Lines that are there by now.

        Raises:
            UnavailableError: the connection failed.
        """
        if self._split is not None and not self._lines:
            connection = self._connection or self._connect(self._split)
            if connection is None:
                return NotYet(_RETRY_MS)
            self._receive(self._split, connection)
        if self._lines:
            count = min(limit, len(self._lines))
            return Batch([self._lines.popleft().decode(errors="replace") for _ in range(count)])
        if self._done:
            return Finished()
        return NotYet(_PAUSE_MS if self._split is not None else None)

    def snapshot(self, checkpoint: CheckpointId) -> list[SocketSplit]:
        """The address; a socket has no position."""
        return [self._split] if self._split is not None else []

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _connect(self, split: SocketSplit) -> socket.socket | None:
        try:
            connection = socket.create_connection((split.host, split.port), timeout=_CONNECT_S)
        except OSError as error:
            self._failures += 1
            if 0 <= self._max_retries < self._failures:
                raise UnavailableError(
                    f"socket {split.id}: no connection after {self._failures} attempts: {error}; "
                    "start the server first, or raise max_retries"
                ) from error
            return None
        connection.setblocking(False)
        self._connection, self._failures = connection, 0
        return connection

    def _receive(self, split: SocketSplit, connection: socket.socket) -> None:
        try:
            received = connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            raise UnavailableError(f"socket {split.id}: the connection broke: {error}") from error
        if received:
            *lines, self._rest = (self._rest + received).split(self._delimiter)
            self._lines.extend(lines)
            return
        connection.close()
        self._connection = None
        if self._rest:
            self._lines.append(self._rest)
            self._rest = b""
        if self._max_retries == 0:
            self._split, self._done = None, True
