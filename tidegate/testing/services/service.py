"""Base class of services: life cycle of a server that tests start, kill and restart.

Guarantee: `start` returns when the server answers its own protocol; after `kill` and `restart` it has the same
address and the same data; after `stop`, a failure, or the death of this process nothing of it is left.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from tidegate.clock import SYSTEM_CLOCK, Clock
from tidegate.errors import ConfigError, UnavailableError
from tidegate.testing.services.process import GuardedProcess, Port, tail

__all__ = ["Service"]

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0
POLL_INTERVAL_S = 0.02


class Service(ABC):
    """A real server on loopback with a temporary directory of its own; use it as a context manager.

    One thread at a time may call its methods. Everybody on this machine may connect to it: no secrets inside.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    user: tuple[int, int] | None = None
    """Run as this (uid, gid); None is the user of this process."""

    def __init__(self, *, port: int = 0, clock: Clock = SYSTEM_CLOCK) -> None:
        self._wanted_port = port
        self._clock = clock
        self._port: Port | None = None
        self._process: GuardedProcess | None = None

    @property
    @abstractmethod
    def usage(self) -> str:
        """How to connect: a few lines of Python that run as they are."""

    @abstractmethod
    def _check(self) -> None:
        """Find or fetch the programs, before anything is started.

        Raises:
            ConfigError, MissingExtraError, UnavailableError: what is missing, with the remedy.
        """

    @abstractmethod
    def _prepare(self) -> None:
        """Fill the new directory; programs go through `_complete`."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """The server's command line."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the server serves its protocol by now; must not block longer than a second."""

    @property
    def port(self) -> int:
        """The port clients connect to; the same for the whole life of the service."""
        if self._port is None:
            raise self._not_started()
        return self._port.number

    @property
    def directory(self) -> Path:
        """The server's temporary directory."""
        return self._guarded().directory

    @property
    def log(self) -> Path:
        """What the server printed."""
        return self.directory / "server.log"

    def start(self) -> Self:
        """Start on an empty directory and wait until clients can connect.

        Raises:
            ConfigError: already started, the port is in use, or the machine lacks something.
            MissingExtraError: a library with the server's programs is not installed.
            UnavailableError: the programs cannot be fetched, or the server does not come up.
        """
        if self._process is not None:
            raise ConfigError(f"the {self.name} service is already started; call restart or stop")
        self._check()
        self._port = Port(self._wanted_port)
        try:
            self._process = GuardedProcess(self.name)
            self._prepare()
            self._boot()
        except BaseException:
            self.stop()
            raise
        return self

    def kill(self) -> None:
        """End the server at once with SIGKILL; data and port stay for `restart`."""
        process = self._guarded()
        if process.running:
            process.signal(signal.SIGKILL)
            process.wait()

    def pause(self) -> None:
        """Let the server stand still, with its connections open, until `resume`."""
        self._guarded().signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the server; it then receives what was sent to it in the meantime."""
        self._guarded().signal(signal.SIGCONT)

    def restart(self) -> None:
        """Start the server again on its data and port, after an orderly shutdown if it is running.

        Raises:
            UnavailableError: it does not come up; the service can still be stopped.
        """
        process = self._guarded()
        if process.running:
            process.signal(self.stop_signal)
            if process.wait(STOP_TIMEOUT_S) is None:
                self.kill()
        self._boot()

    def wait(self) -> None:
        """Block until the server ends by itself.

        Raises:
            UnavailableError: it ended; the message holds the end of its log.
        """
        code = self._guarded().wait()
        raise UnavailableError(
            f"{self.name} ended with exit code {code}; the end of its log:\n{tail(self.log)}"
        )

    def stop(self) -> None:
        """End the server and remove everything it wrote; harmless when already stopped."""
        if self._process is not None:
            self._process.close()
            self._process = None
        if self._port is not None:
            self._port.release()
            self._port = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _complete(self, argv: Sequence[str]) -> None:
        """Run a program of the server to its end."""
        process = self._guarded()
        process.run(argv, self.log, self.user)
        if code := process.wait():
            raise UnavailableError(
                f"{self.name} could not be prepared: {Path(argv[0]).name} exited with code {code}; "
                f"the end of its log:\n{tail(self.log)}"
            )

    def _boot(self) -> None:
        process = self._guarded()
        process.run(self._command(), self.log, self.user)
        deadline = self._clock.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if (code := process.wait(POLL_INTERVAL_S)) is not None:
                raise self._not_up(f"it exited with code {code}")
            if self._clock.monotonic() > deadline:
                self.kill()
                raise self._not_up(f"it did not answer within {START_TIMEOUT_S:.0f} s")

    def _not_up(self, reason: str) -> UnavailableError:
        return UnavailableError(f"{self.name} did not start: {reason}; the end of its log:\n{tail(self.log)}")

    def _guarded(self) -> GuardedProcess:
        if self._process is None:
            raise self._not_started()
        return self._process

    def _not_started(self) -> ConfigError:
        return ConfigError(
            f"the {self.name} service is not started; use it in a with statement or call start"
        )
