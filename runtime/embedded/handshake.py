"""Messages between the JobManager and a worker process: startup, readiness, exit."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import FencedError

__all__ = ["Closed", "Gone", "LeaseLost", "LeaseRenewed", "Ping", "Pong", "Ready", "WorkerBootstrap"]


@dataclass(frozen=True, slots=True)
class WorkerBootstrap:
    """The first message to a worker."""

    worker: int
    address: str
    """The address on which it listens for its peers."""
    token: bytes
    """The secret that peers present to each other."""
    path: list[str]
    """The module search path of the program."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker listens for its peers."""

    worker: int
    pid: int


@dataclass(frozen=True, slots=True)
class Ping:
    """Say that you live; asked at any time."""


@dataclass(frozen=True, slots=True)
class LeaseRenewed:
    """The JobManager lives, and owns its pipeline until then, in seconds of this machine's monotonic clock."""

    until: float


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The pipeline has a newer owner: do nothing more."""

    error: FencedError


@dataclass(frozen=True, slots=True)
class Pong:
    """The worker's process lives, whatever its functions do."""

    worker: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The worker has closed everything."""

    worker: int


@dataclass(frozen=True, slots=True)
class Gone:
    """The process of a worker is over, said by the process it was forked from."""

    worker: int
    pid: int
    exit_code: int
    """Negative: the signal that killed it."""
