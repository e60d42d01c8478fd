"""What is on its way to a subtask when a checkpoint overtakes it: kept with the checkpoint, worked off first after it.

`Recording` keeps what lies in front of the barriers, in bytes at once, because records go on and functions may change
them. `resumed` gives it back to the subtasks of any parallelism, each of which reads all of it and takes what is its
own: records behind an exchange by key go to the owners of their keys, others to one subtask of those there are now.

What is kept of a channel begins with its event time and says how that moved, so time is in the end where it would have
been: the minimum over all channels there were.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from functools import cached_property
from typing import Final, TypeAlias

import msgspec

from tidegate.elements import MIN_WATERMARK, Barrier, Batch, Element, Idle, RecordOrigin, Watermark
from tidegate.errors import StateFormatError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.graph.transformations import Broadcast, Custom, Global, Hash, Rebalance, Shuffle
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.task.alignment import Inputs
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.routing import router
from tidegate.serde import Codec, codec_for
from tidegate.types import TypeInformation

__all__ = ["Recording", "Resumed", "overtakable", "resumed"]

_PIECE: Final = 256
"""Records that are worked off between two looks at the mailbox."""

Resumed: TypeAlias = tuple[OperatorUid, int, Batch | Watermark]
"""To which step, on which of its inputs, and what; or how far event time is for it."""


class _Records(msgspec.Struct, frozen=True, tag="records", omit_defaults=True):
    values: bytes
    timestamps: list[int] | None = None
    origins: list[RecordOrigin | None] | None = None


class _Lane(msgspec.Struct, frozen=True):
    """One channel: where its time was, and what came after."""

    channel: ChannelId
    side: int
    stored: str
    """The fingerprint of the type of its values."""
    time: int
    idle: bool
    elements: list[_Records | Watermark | Idle]


class _InFlight(msgspec.Struct, frozen=True):
    """All channels into one subtask."""

    subtask: int
    lanes: list[_Lane]


def overtakable(edge: JobEdge) -> bool:
    """Whether what is on its way over an edge can be dealt anew.

    Where each receiver has a copy, or an order that goes on behind it, or a receiver of the program's choice, records
    keep their place in front of the barrier.
    """
    return isinstance(edge.partition, Hash | Rebalance | Shuffle | Global)


class Recording:
    """What lies in front of the barriers of a checkpoint that has overtaken them.

    Example:
        >>> edge = JobEdge("a", OperatorUid("a"), "b", Rebalance(), None, 1, 1, 128)
        >>> channel = ChannelId(edge.name, 0, 0)
        >>> recording = Recording(CheckpointId(7), (edge,), 0, {channel: (0, False)}, {channel})
        >>> for element in (Batch([1, 2]), Watermark(5), Barrier(CheckpointId(7)), Batch([3])):
        ...     recording.add(channel, element)
        >>> recording.empty, b"records" in recording.encoded()
        (False, True)
    """

    def __init__(
        self,
        checkpoint: CheckpointId,
        edges: Collection[JobEdge],
        subtask: int,
        marks: Mapping[ChannelId, tuple[int, bool]],
        overtaken: Collection[Hashable],
    ) -> None:
        self._checkpoint = checkpoint
        self._subtask = subtask
        self._open = set(overtaken)
        self._edges = {edge.name: edge for edge in edges}
        self._codecs = {edge.name: codec_for(edge.value_type) for edge in edges}
        self._marks = dict(marks)
        self._elements: dict[ChannelId, list[_Records | Watermark | Idle]] = {each: [] for each in marks}

    @property
    def empty(self) -> bool:
        """Whether nothing was overtaken."""
        return not any(self._elements.values())

    def add(self, channel: ChannelId, element: Element) -> None:
        """Keep an element that is in front of the channel's barrier; one behind it is not asked for.

        Raises:
            RecordError: a value cannot be kept.
        """
        if channel not in self._open:
            return
        match element:
            case Batch():
                values = self._codecs[channel.edge].encode_batch(element.values)
                self._elements[channel].append(_Records(values, element.timestamps, element.origins))
            case Watermark() | Idle():
                self._elements[channel].append(element)
            case Barrier() if element.checkpoint >= self._checkpoint:
                self._open.discard(channel)

    def encoded(self) -> bytes:
        """All of it as it is stored. Ends of the input come again, as sources stay."""
        lanes = [
            _Lane(
                channel,
                self._edges[channel.edge].side,
                self._codecs[channel.edge].fingerprint,
                *self._marks[channel],
                elements,
            )
            for channel, elements in self._elements.items()
        ]
        return msgspec.msgpack.encode(_InFlight(self._subtask, lanes))


def resumed(vertex: JobVertex, env: ChainEnvironment) -> Iterator[Resumed]:
    """What was on its way to the steps of a subtask at the checkpoint it goes on from, in the order to process it.

    What is nearer to the end of a chain was there before. Only the chain's first step has inputs of its own, so only
    its time moves; a step that was first and is not any more gets records.

    Raises:
        StateCorruptError: a file is gone or damaged.
        StateFormatError: the input they were on their way to is of another kind now.
    """
    for uid in reversed(vertex.nodes):
        kept = [_DECODER.decode(env.state.files.fetch(each)) for each in env.operator(uid).in_flight]
        lanes = [(each.subtask, lane) for each in kept for lane in each.lanes]
        time = Inputs(lane.channel for _, lane in lanes)
        for _, lane in lanes:
            time.watermark(lane.channel, lane.time)
            time.idle(lane.channel, lane.idle)
        if time.now > MIN_WATERMARK and uid == vertex.head.uid:
            yield uid, 0, Watermark(time.now)
        for subtask, lane in lanes:
            yield from _worked_off(lane, _Input(vertex, uid, lane, subtask, env), time)


def _worked_off(lane: _Lane, taken: _Input, time: Inputs) -> Iterator[Resumed]:
    for element in lane.elements:
        if isinstance(element, _Records):
            yield from taken.batches(element)
            continue
        moved = (
            time.watermark(lane.channel, element.timestamp)
            if isinstance(element, Watermark)
            else time.idle(lane.channel, element.idle)
        )
        if moved is not None and taken.first:
            yield taken.uid, lane.side, Watermark(moved)


class _Input:
    """An input of a step, as it takes what a channel of the run before held."""

    def __init__(
        self, vertex: JobVertex, uid: OperatorUid, lane: _Lane, subtask: int, env: ChainEnvironment
    ) -> None:
        self.uid = uid
        self.first = uid == vertex.head.uid
        self._vertex = vertex
        self._lane = lane
        self._index = env.subtask.index
        self._mine = subtask % env.parallelism == self._index

    def batches(self, records: _Records) -> Iterator[Resumed]:
        """What of some records is for this subtask."""
        edge = self._edge
        if edge is None or not isinstance(edge.partition, Hash | Global):
            batches = [self._decoded(records)] if self._mine else []
        else:
            shares = router(edge, self._index)(self._decoded(records))
            batches = [share for target, share in shares if target == self._index]
        for batch in batches:
            for start in range(0, len(batch), _PIECE):
                yield self.uid, self._lane.side, batch.part(slice(start, start + _PIECE))

    def _decoded(self, records: _Records) -> Batch:
        values = self._codec.decode_batch(records.values)
        return Batch(values, records.timestamps, origins=records.origins)

    @cached_property
    def _edge(self) -> JobEdge | None:
        """The exchange it is behind; None in the midst of a chain."""
        if not self.first:
            return None
        alike = [edge for edge in self._vertex.inputs if edge.side == self._lane.side]
        same = [edge for edge in alike if edge.name == self._lane.channel.edge]
        for edge in (*same, *alike):
            if not isinstance(edge.partition, Broadcast | Custom):
                return edge
        raise self._misfit("an exchange that deals records by keys or in turn")

    @cached_property
    def _codec(self) -> Codec:
        codec = codec_for(self._type)
        if codec.fingerprint != self._lane.stored:
            raise self._misfit(f"type {codec.fingerprint}")
        return codec

    @property
    def _type(self) -> TypeInformation | None:
        if self._edge is not None:
            return self._edge.value_type
        before = (node for uid, node in self._vertex.nodes.items() if self.uid in self._vertex.follows[uid])
        return next((node.output_type for node in before), None)

    def _misfit(self, expected: str) -> StateFormatError:
        return StateFormatError(
            f"the checkpoint holds records on their way to input {self._lane.side} of operator {self.uid!r}; got records "
            f"of type {self._lane.stored}; expected {expected}; start the program as it was and go on from a savepoint, "
            "which holds no records on their way"
        )


_DECODER: Final = msgspec.msgpack.Decoder(_InFlight)
