"""Guard process between a service and its server: it stops the server even if the service is killed.

Run as a script. It makes the temporary directory, starts one server at a time in it, and ends when its standard
input closes or its parent dies, also by SIGKILL: then every process below it is killed and the directory removed.
If the guard itself is killed, the kernel kills the server; only the directory stays.

It reads and writes one JSON object a line:
    -> {"run": [...], "log": path, "user": uid, "group": gid}    <- {"exit": code}
    -> {"signal": number}                                       <- {"sent": number}, once the server has it or is gone

Only the standard library is imported, because it must start in a few milliseconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)


class _Guard:
    """One thread, one directory, at most one server."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._events = selectors.DefaultSelector()
        self._server: subprocess.Popen[bytes] | None = None
        self._server_fd = -1

    def serve(self) -> None:
        """Execute commands until standard input closes or the parent dies."""
        parent = os.pidfd_open(os.getppid())
        orders = os.fdopen(sys.stdin.fileno(), "rb", buffering=0)
        self._events.register(parent, selectors.EVENT_READ)
        self._events.register(orders, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in self._events.select()}
            if parent in ready:
                return
            if self._server_fd in ready:
                self._report_exit()
            if orders.fileno() in ready:
                line = orders.readline()
                if not line:
                    return
                self._obey(json.loads(line))

    def end(self) -> None:
        """Kill all descendants of this process and remove the directory."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        _kill_descendants()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _obey(self, order: dict[str, Any]) -> None:
        if "run" in order:
            self._run(order)
        else:
            if self._server is not None:
                self._server.send_signal(order["signal"])
            _say(sent=order["signal"])

    def _run(self, order: dict[str, Any]) -> None:
        with Path(order["log"]).open("ab", buffering=0) as log:
            try:
                self._server = self._spawn(order, log)
            except OSError as error:
                log.write(f"{error}\n".encode())
                _say(exit=127)
                return
        self._server_fd = os.pidfd_open(self._server.pid)
        self._events.register(self._server_fd, selectors.EVENT_READ)

    def _spawn(self, order: dict[str, Any], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            order["run"],
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            user=order["user"],
            group=order["group"],
            extra_groups=None if order["user"] is None else [],
            process_group=0,
            preexec_fn=_die_with_guard,
        )

    def _report_exit(self) -> None:
        assert self._server is not None
        self._events.unregister(self._server_fd)
        os.close(self._server_fd)
        self._server_fd = -1
        code = self._server.wait()
        self._server = None
        _kill_descendants()
        _say(exit=code)


def main() -> None:
    """Announce the directory, serve, clean up."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    guard = _Guard(directory := tempfile.mkdtemp(prefix=f"tidegate-{sys.argv[1]}-"))
    try:
        _say(directory=directory)
        guard.serve()
    finally:
        guard.end()


def _say(**message: Any) -> None:
    os.write(sys.stdout.fileno(), json.dumps(message).encode() + b"\n")


def _die_with_guard() -> None:
    # The guard has one thread, so "death of the parent thread" means death of the guard.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _kill_descendants() -> None:
    # A killed server's own children are handed to this process, because it is their subreaper.
    while children := _children():
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _children() -> list[int]:
    own = str(os.getpid())
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat") if _parent_of(path) == own]


def _parent_of(stat: Path) -> str:
    try:
        return stat.read_text().rpartition(")")[2].split()[1]
    except OSError:  # the process has ended
        return ""


if __name__ == "__main__":
    main()
