"""Control server: a Unix socket in a directory that only the user of the run can enter.

No network port is open. A client must first present the token, which is in the note of the run.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from hmac import compare_digest
from typing import Final

from tidegate.errors import ConfigError
from tidegate.runtime.control import protocol
from tidegate.runtime.working_directory import OwnedDirectory, short_directory

__all__ = ["ControlServer", "listening"]

_LAST_WORDS_S: Final = 1.0


@contextlib.contextmanager
def listening(answer: Callable[[protocol.Question], protocol.Answer], token: str) -> Iterator[str]:
    """Answer questions until the end of the block; gives the socket's path.

    Raises:
        OSError: there is no place for a socket.
    """
    with OwnedDirectory("sockets", short_directory()) as directory:
        path = str(directory / "control")
        server = ControlServer(path, answer, token)
        try:
            yield path
        finally:
            server.close()


class ControlServer:
    """One thread that accepts, and one for each connection."""

    def __init__(self, path: str, answer: Callable[[protocol.Question], protocol.Answer], token: str) -> None:
        self._answer = answer
        self._token = token
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._busy = 0
        self._changed = threading.Condition()
        self._acceptor = threading.Thread(target=self._accept, daemon=True, name="tidegate-control")
        self._acceptor.start()

    def close(self) -> None:
        """Stop accepting, send pending answers, and close all connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        with self._changed:
            self._changed.wait_for(lambda: self._busy == 0, _LAST_WORDS_S)
            left = dict(self._connections)
            for connection in left:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in left.values():
            thread.join(_LAST_WORDS_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(
                target=self._converse, args=(connection,), daemon=True, name="tidegate-control"
            )
            with self._changed:
                self._connections[connection] = thread
            thread.start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError), connection, connection.makefile("rwb") as lines:
                known = False
                for line in lines:
                    with self._being_answered():
                        said = self._reply(line, known)
                        known = known or isinstance(said, protocol.Done)
                        lines.write(protocol.encode(said))
                        lines.flush()
                    if not known:
                        return
        finally:
            with self._changed:
                del self._connections[connection]

    def _reply(self, line: bytes, known: bool) -> protocol.Answer:
        try:
            question = protocol.decode_question(line)
        except ConfigError as error:
            return protocol.Refused(type(error).__name__, str(error))
        if known:
            return self._answer(question)
        if isinstance(question, protocol.Hello) and compare_digest(question.token, self._token):
            return protocol.Done()
        return protocol.Refused(
            "ConfigError", "the token is not the one of this run; read it from the run's note"
        )

    @contextlib.contextmanager
    def _being_answered(self) -> Iterator[None]:
        with self._changed:
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()
