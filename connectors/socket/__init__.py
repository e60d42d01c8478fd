"""Socket source and sink: lines of text over TCP."""

from __future__ import annotations

from tidegate.connectors.socket.reader import SocketTextReader as SocketTextReader
from tidegate.connectors.socket.sink import SocketTextSink as SocketTextSink
from tidegate.connectors.socket.source import SocketTextSource as SocketTextSource
from tidegate.connectors.socket.split import SocketSplit as SocketSplit

__all__ = ["SocketSplit", "SocketTextReader", "SocketTextSink", "SocketTextSource"]
