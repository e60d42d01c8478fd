"""Building blocks of services: a guarded process, a reserved port, a readable failure.

Guarantee: when the owner ends in any way, also by SIGKILL, the server's processes end and its directory is removed.
"""

from __future__ import annotations

import errno
import json
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidegate.errors import ConfigError, UnavailableError

__all__ = ["LOOPBACK", "GuardedProcess", "Port", "tail"]

LOOPBACK = "127.0.0.1"


class Port:
    """A loopback port that is reserved until `release`, even while no server listens on it.

    It is bound but never listened on: the kernel then does not assign it as a free port, refuses
    connections, and lets a server bind it too, since both set SO_REUSEADDR.
    """

    def __init__(self, number: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((LOOPBACK, number))
        except (OSError, OverflowError) as error:
            self._socket.close()
            raise _unusable(number, error) from error
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Give the port back."""
        self._socket.close()


class GuardedProcess:
    """One server at a time in a temporary directory, watched over by a guard process."""

    def __init__(self, name: str) -> None:
        guard = Path(__file__).with_name("_guard.py")
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(guard), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the owner, who then ends the guard
        )
        self._running = False
        self._exit: int | None = None
        self.directory = Path(self._receive()["directory"])

    @property
    def running(self) -> bool:
        """Whether the server was started and `wait` has not reported its end."""
        return self._running

    def run(self, argv: Sequence[str], log: Path, user: tuple[int, int] | None = None) -> None:
        """Start `argv`, appending its output to `log`, as (uid, gid) `user` if given."""
        uid, gid = user or (None, None)
        self._tell(run=list(argv), log=str(log), user=uid, group=gid)
        self._running = True

    def wait(self, timeout: float | None = None) -> int | None:
        """The exit code once the server and all its children are gone; None if that takes longer than `timeout`."""
        assert self._guard.stdout is not None
        if self._exit is None:
            if not select.select([self._guard.stdout], [], [], timeout)[0]:
                return None
            self._exit = int(self._receive()["exit"])
        code, self._exit, self._running = self._exit, None, False
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server; nothing happens if the server has ended."""
        self._tell(signal=int(number))
        while "exit" in (message := self._receive()):
            self._exit = int(message["exit"])

    def close(self) -> None:
        """Kill the server, remove the directory, end the guard."""
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        self._guard.stdin.close()
        self._guard.wait()
        self._guard.stdout.close()
        self._running = False

    def _tell(self, **order: Any) -> None:
        assert self._guard.stdin is not None
        with suppress(BrokenPipeError):  # told by the next `_receive`
            self._guard.stdin.write(json.dumps(order).encode() + b"\n")

    def _receive(self) -> dict[str, Any]:
        assert self._guard.stdout is not None
        line = self._guard.stdout.readline()
        if not line:
            raise UnavailableError(
                f"the guard of a server died (process {self._guard.pid}); start the service again"
            )
        message: dict[str, Any] = json.loads(line)
        return message


def tail(log: Path, lines: int = 12) -> str:
    """The end of a log, indented, for an error message; Java's stack frames would push the reason out of it."""
    text = log.read_text(errors="replace") if log.exists() else ""
    telling = [line for line in text.splitlines() if not line.startswith("\tat ")]
    return "\n".join(f"    {line}" for line in telling[-lines:]) or "    (the log is empty)"


def _unusable(number: int, error: Exception) -> ConfigError:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return ConfigError(f"port {number} on {LOOPBACK} is in use; choose another, or 0 for a free port")
    return ConfigError(
        f"port {number} cannot be opened: {error}; expected 1024 to 65535, or 0 for a free port"
    )
