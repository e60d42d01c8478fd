"""Framed messages over the socket of an accepted connection.

A message is read into one piece of memory of its size: `Connection.recv_bytes` needs seven times the CPU for messages of
several hundred kilobytes, as it reads, grows and copies in between.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

__all__ = ["FramedSocket"]

_LENGTH: Final = struct.Struct("!Q")
_SMALL: Final = 16_384
"""Up to this size, copying a message costs less than another system call."""


class FramedSocket:
    """Takes over a connection after both ends have proved who they are; one thread sends, one receives."""

    def __init__(self, connection: Connection) -> None:
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        connection.close()

    def send(self, message: bytes) -> None:
        """Hand a message to the other end; waits while that is not reading.

        Raises:
            OSError: the other end is closed.
        """
        length = _LENGTH.pack(len(message))
        if len(message) <= _SMALL:
            self._socket.sendall(length + message)
        else:
            self._socket.sendall(length)
            self._socket.sendall(message)

    def receive(self) -> bytearray:
        """The next message.

        Raises:
            EOFError: the other end is closed.
            OSError: the line is broken.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return self._exactly(length)

    def close(self) -> None:
        """Close the connection; receivers at both ends get an EOFError."""
        with suppress(OSError):  # the other end has closed it already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, length: int) -> bytearray:
        message = bytearray(length)
        rest = memoryview(message)
        while rest:
            count = self._socket.recv_into(rest, 0, socket.MSG_WAITALL)
            if not count:
                raise EOFError("the other end of the socket is closed")
            rest = rest[count:]
        return message
