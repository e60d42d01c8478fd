"""Socket source: reads lines of text from a TCP server, for experiments.

Guarantee: none. A socket cannot go back, so after a failure the lines since the last checkpoint are lost, and lines
sent while no client is connected are, too. Between failures every line arrives once, in order.

Example:
    >>> SocketTextSource("localhost", 9000).bounded
    False
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.connectors.base import ListEnumerator
from tidegate.connectors.socket.reader import SocketTextReader
from tidegate.connectors.socket.split import SocketSplit
from tidegate.connectors.spi import EnumeratorContext, ReaderContext, Source
from tidegate.errors import ConfigError
from tidegate.ids import SplitId

__all__ = ["SocketTextSource"]


@dataclass(frozen=True)
class SocketTextSource(Source[SocketSplit]):
    """A TCP server that sends text; the stream ends when it closes the connection.

    Args:
        host: Name or address of the server.
        port: Its port.
        delimiter: What ends a line.
        max_retries: The number of reconnects, one second apart; -1 is unlimited.

    Raises:
        ConfigError: an argument makes no sense.
    """

    host: str
    port: int
    delimiter: str = "\n"
    max_retries: int = 0

    split_type = SocketSplit
    bounded = False
    continuous = True
    replayable = False

    def __post_init__(self) -> None:
        if not self.host:
            raise ConfigError("socket host is empty; expected a name or an address such as localhost")
        if type(self.port) is not int or not 0 < self.port < 65_536:
            raise ConfigError(f"socket port is {self.port!r}; expected an integer from 1 to 65535")
        if not self.delimiter:
            raise ConfigError("socket delimiter is empty; expected the end of a line")
        if self.max_retries < -1:
            raise ConfigError(
                f"socket max_retries is {self.max_retries}; expected 0 or more, or -1 for no limit"
            )

    def open_enumerator(
        self, context: EnumeratorContext[SocketSplit], restored: bytes | None
    ) -> ListEnumerator[SocketSplit]:
        """Gives the one connection to one reader."""
        split = SocketSplit(SplitId(f"{self.host}:{self.port}"), self.host, self.port)
        return ListEnumerator(context, [split], SocketSplit, restored)

    def open_reader(self, context: ReaderContext) -> SocketTextReader:
        """Connects when it gets the address."""
        return SocketTextReader(self.delimiter.encode(), self.max_retries)
