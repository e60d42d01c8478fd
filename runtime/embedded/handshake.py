"""What a JobManager and the process of a worker say to each other before and after the work."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Ended", "Gone", "Invitation", "Ready"]


@dataclass(frozen=True, slots=True)
class Invitation:
    """The first message to a worker."""

    worker: int
    address: str
    """Where it shall listen for its peers."""
    token: bytes
    """What peers show each other."""
    path: list[str]
    """The module search path of the program."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker listens for its peers."""

    worker: int
    pid: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The worker has closed everything."""

    worker: int


@dataclass(frozen=True, slots=True)
class Gone:
    """The process of a worker is over, said by the process it was forked from."""

    worker: int
    pid: int
    exit_code: int
    """Below zero: the signal that killed it."""
