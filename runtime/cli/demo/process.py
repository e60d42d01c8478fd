"""One start of the demo's job, in a separate process group, with its status output."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidegate.errors import InternalError
from tidegate.runtime.status import RunSnapshot

__all__ = ["JobProcess"]


class JobProcess:
    """A job that prints its status as JSON lines on standard error.

    Args:
        command: What to start.
        directory: Where it is started; its `tidegate.toml`, if any, counts.
        log: Everything that the job says is appended here.
        death_s: How long its processes may take to vanish once they are killed.
    """

    def __init__(self, command: Sequence[str], directory: Path, log: Path, death_s: float = 10.0) -> None:
        self._snapshots: queue.SimpleQueue[RunSnapshot | None] = queue.SimpleQueue()
        self._log = log
        self._death_s = death_s
        self._silent = False
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                env=_neutral_environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        threading.Thread(target=self._listen, daemon=True, name="demo-listener").start()

    @property
    def pid(self) -> int:
        """The number of its process and of its process group."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether any of its processes may still say something."""
        return not self._silent

    def receive(self, timeout_s: float) -> RunSnapshot | None:
        """What it says next; None if it says nothing for so long, or is gone."""
        if self._silent:
            return None
        try:
            snapshot = self._snapshots.get(timeout=timeout_s)
        except queue.Empty:
            return None
        self._silent = snapshot is None
        return snapshot

    def wait(self) -> int:
        """The return code of a job that ends by itself."""
        return self._process.wait(self._death_s)

    def kill(self) -> int:
        """End it and all its children by SIGKILL, at once; the return code is -9 unless it had ended before.

        Raises:
            InternalError: one of its processes is still alive.
        """
        os.killpg(self.pid, signal.SIGKILL)
        code = self._process.wait(self._death_s)
        # Each process of the job holds the other end of its standard error: silence for good means that all are gone.
        while self.running:
            if self.receive(self._death_s) is None and self.running:
                raise InternalError(
                    f"a child of the killed job (pid {self.pid}) is still alive; please report this"
                )
        return code

    def close(self) -> None:
        """Leave nothing running."""
        if self._process.poll() is None:
            self.kill()

    def _listen(self) -> None:
        stderr = self._process.stderr
        if stderr is not None:
            with self._log.open("ab") as log, stderr:
                for line in stderr:
                    log.write(line)
                    self._understand(line)
        self._snapshots.put(None)

    def _understand(self, line: bytes) -> None:
        try:
            self._snapshots.put(msgspec.json.decode(line, type=RunSnapshot))
        except msgspec.DecodeError:
            return  # something for people; the log has it


def _neutral_environment() -> dict[str, str]:
    """The demo is the same whatever the user has set for other jobs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
