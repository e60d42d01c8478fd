"""Socket sink: sends each record as a line to a TCP server, for experiments.

Guarantee: none. The receiver does not acknowledge lines, so lines in flight when the connection breaks are lost, and after a failure
the lines since the last checkpoint are sent again.

Example:
    >>> SocketTextSink("localhost", 9000).delivery
    'none'
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import ClassVar, Final

from tidegate.changelog import RowKinds
from tidegate.clock import Clock
from tidegate.connectors.spi import Sink
from tidegate.elements import Batch
from tidegate.errors import ConfigError, UnavailableError
from tidegate.ids import CheckpointId
from tidegate.row import values_with_kinds
from tidegate.twophase.spi import SinkWriter, WriterContext

__all__ = ["SocketTextSink", "SocketTextWriter"]

_CONNECT_S: Final = 5.0
_RETRY_S: Final = 1.0


@dataclass(frozen=True)
class SocketTextSink(Sink):
    """A TCP server that takes lines of text; every subtask has its own connection.

    Args:
        host: Name or address of the server.
        port: Its port.
        delimiter: What ends a line.
        max_retries: How often a batch is sent over a new connection, a second apart, when the current one broke.

    Raises:
        ConfigError: an argument makes no sense.
    """

    host: str
    port: int
    delimiter: str = "\n"
    max_retries: int = 0

    delivery = "none"
    takes: ClassVar[RowKinds] = "rows"

    def __post_init__(self) -> None:
        if not self.delimiter:
            raise ConfigError("socket sink: the delimiter is empty; expected at least one character")
        if self.max_retries < 0:
            raise ConfigError(f"socket sink: max_retries is {self.max_retries}; expected 0 or more")

    def open_writer(self, context: WriterContext) -> SocketTextWriter:
        """Connects when there is something to send."""
        return SocketTextWriter(self, context.clock)


class SocketTextWriter(SinkWriter):
    """Sends the text of records batch by batch; there is nothing to commit."""

    def __init__(self, sink: SocketTextSink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._connection: socket.socket | None = None

    def write(self, batch: Batch) -> None:
        """Send a batch; waits while the server does not take it.

        Raises:
            RecordError: the kind of a change would be lost.
            UnavailableError: the connection failed.
        """
        if not batch.values:
            return
        end = self._sink.delimiter
        data = "".join(f"{value}{end}" for value in values_with_kinds(batch, "socket sink")).encode()
        for attempt in range(self._sink.max_retries + 1):
            if attempt:
                self._clock.sleep(_RETRY_S)
            try:
                self._send(data)
            except OSError as error:
                self.close()
                failure = error
            else:
                return
        raise UnavailableError(
            f"socket {self._sink.host}:{self._sink.port}: {len(batch)} lines were not sent in "
            f"{self._sink.max_retries + 1} attempts: {failure}; start the server first, or raise max_retries"
        ) from failure

    def prepare(self, checkpoint: CheckpointId) -> None:
        """Does nothing: written lines were sent, and their receipt is unknown."""

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, data: bytes) -> None:
        if self._connection is None:
            address = (self._sink.host, self._sink.port)
            self._connection = socket.create_connection(address, timeout=_CONNECT_S)
            self._connection.settimeout(None)
        self._connection.sendall(data)
