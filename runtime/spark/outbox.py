"""What a task sends: records of its own, and what it passes on to later levels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from sys import maxsize

from tidegate.clock import SYSTEM_CLOCK
from tidegate.elements import Barrier, Element
from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.graph.transformations import NEVER_MS
from tidegate.runtime.task.credit import Credit
from tidegate.runtime.task.exchange import Buffer, ChannelId, RecordWriter
from tidegate.runtime.task.frames import EdgeCodec

__all__ = ["Outbox"]


class Outbox:
    """Encoded elements by the subtask they are for."""

    def __init__(self) -> None:
        self.bytes = 0
        """Of what is of its own."""
        self._frames: defaultdict[Subtask, list[bytes]] = defaultdict(list)

    def pass_on(self, subtask: Subtask, frames: Iterable[bytes]) -> None:
        """Take what a task before has for a later level; a channel's frames come in one piece."""
        self._frames[subtask] += frames

    def gates(self, vertex: JobVertex, index: int) -> dict[str, RecordWriter]:
        """The sending ends of a subtask's exchanges; nobody holds it up."""
        return {edge.name: RecordWriter(edge, index, self._channels(edge, index)) for edge in vertex.outputs}

    def dealt(self, level: Sequence[Subtask], partition: int) -> list[dict[Subtask, tuple[bytes, ...]]]:
        """All of it, by partition of the next level; what is for later ones goes by way of one of those."""
        places = {subtask: place for place, subtask in enumerate(level)}
        shares: list[dict[Subtask, tuple[bytes, ...]]] = [{} for _ in level]
        for subtask, frames in self._frames.items():
            shares[places.get(subtask, partition % len(level))][subtask] = tuple(frames)
        return shares

    def _channels(self, edge: JobEdge, index: int) -> Mapping[int, Buffer]:
        wire = EdgeCodec(edge)
        return {
            target: Buffer(
                _Channel(
                    partial(wire.encode, ChannelId(edge.name, index, target)),
                    partial(self._keep, self._frames[Subtask(edge.target, target)]),
                ),
                NEVER_MS,
                SYSTEM_CLOCK,
            )
            for target in edge.reached_from(index)
        }

    def _keep(self, frames: list[bytes], frame: bytes) -> None:
        frames.append(frame)
        self.bytes += len(frame)


class _Channel:
    """The sending end of a channel: what is sent is kept until the task ends."""

    def __init__(self, encode: Callable[[Element], bytes], keep: Callable[[bytes], None]) -> None:
        self.credit = Credit(maxsize)
        self._encode = encode
        self._keep = keep

    def send(self, element: Element) -> None:
        """Keep an element. Where the epoch ends every receiver knows by itself."""
        if not isinstance(element, Barrier):
            self._keep(self._encode(element))
