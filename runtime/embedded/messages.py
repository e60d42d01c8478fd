"""Messages of worker processes: from and to the JobManager, from other workers, and in their inboxes."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from tidegate.errors import FencedError
from tidegate.ids import Branch, CheckpointId, FencingTerm, LineageId, PipelineId, RunId, Subtask
from tidegate.runtime.checkpoint.restore import Restored
from tidegate.runtime.options import JobOptions
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.frames import Frame
from tidegate.runtime.task.messages import ToSubtask
from tidegate.runtime.task.results import Results

__all__ = [
    "Closed",
    "Deployment",
    "Gone",
    "Granted",
    "Hello",
    "Inbox",
    "LeaseLost",
    "LeaseRenewed",
    "Ping",
    "Pong",
    "Post",
    "Ready",
    "Shutdown",
    "Wake",
    "WorkerBootstrap",
    "decode",
]


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
class Deployment:
    """What a worker runs, and from which state; sent to each at the start of an attempt."""

    worker: int
    places: Mapping[Subtask, int]
    vertices: Mapping[str, bytes]
    main_classes: bytes
    restored: Restored
    checkpoint: CheckpointId | None
    pipeline: PipelineId
    lineage: LineageId
    branch: Branch
    term: FencingTerm
    run: RunId
    attempt: str
    storage: Any
    backend: Any
    options: JobOptions
    directory: Path
    """Directory of the worker's working state; the JobManager removes it."""
    copies: Path | None
    """Directory of the worker's copies of snapshot files; None without local recovery."""
    memory: Mapping[Subtask, int]
    """Managed memory of each subtask with state, if it is limited."""
    results: Results | None
    """Directory of the results of a batch job's tasks; None for a stream."""
    finished: frozenset[Subtask]
    """Tasks with complete results, which do not run again."""

    @property
    def mine(self) -> list[Subtask]:
        """What this worker runs."""
        return [subtask for subtask, worker in self.places.items() if worker == self.worker]


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


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The worker that opened this connection to another one."""

    worker: int


class Granted(msgspec.Struct, frozen=True, tag=True):
    """Records of this channel are worked off."""

    channel: ChannelId
    records: int
    limit: int
    """Credit: how many batches may be in flight from now on."""


@dataclass(frozen=True, slots=True)
class Post:
    """A message of the coordinator to one subtask."""

    subtask: Subtask
    message: ToSubtask


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Close everything and end."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Look for work: something has come for a subtask by another way than the inbox."""


Inbox: TypeAlias = queue.SimpleQueue[Post | Shutdown | Frame | Granted | Wake]
"""All messages to a worker, in order."""


_DECODER: msgspec.msgpack.Decoder[Hello | Granted | Frame] = msgspec.msgpack.Decoder(Hello | Granted | Frame)


def decode(data: bytes | bytearray) -> Hello | Granted | Frame:
    """Read a message of another worker."""
    return _DECODER.decode(data)
