"""A way to a server that can be shut, or swallow what is said, as when a network fails."""

from __future__ import annotations

import contextlib
import socket
import threading
from socketserver import BaseRequestHandler, ThreadingTCPServer
from types import TracebackType
from typing import Self

from tidegate.testing.services.process import LOOPBACK

__all__ = ["Gate"]

_BLOCK = 65_536


class Gate:
    """Passes on what clients and a server on this machine say to each other; shut, it ends every connection.

    Silent, it takes every connection and all that is said, and passes nothing on until it is no longer.
    """

    def __init__(self, server: int) -> None:
        self.open = True
        self.passes = threading.Event()
        self.passes.set()
        gate = self

        class Way(BaseRequestHandler):
            def handle(self) -> None:
                if gate.open:
                    with socket.create_connection((LOOPBACK, server)) as there:
                        back = threading.Thread(target=gate._carry, args=(there, self.request))
                        back.start()
                        gate._carry(self.request, there)
                        back.join()

        self._listener = ThreadingTCPServer((LOOPBACK, 0), Way)
        self._listener.daemon_threads = True
        self.port: int = self._listener.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._listener.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open = False
        self.passes.set()
        self._listener.shutdown()
        self._listener.server_close()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (data := source.recv(_BLOCK)) and self.passes.wait() and self.open:
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
