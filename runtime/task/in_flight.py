"""What is on its way to a subtask when a checkpoint overtakes it: kept with the checkpoint, worked off first after it.

`Recording` keeps what lies in front of the barriers, in bytes at once, because records go on and functions may change
them. `Backlog` gives it back to the subtasks of any parallelism, each of which reads all of it and takes what is its
own: records behind an exchange by key go to the owners of their keys, others to one subtask of those there are now.
What a subtask has not worked off yet when the next checkpoint overtakes it is kept with that one, too.

What is kept of a channel begins with its event time and says how that moved, so time is in the end where it would have
been: the minimum over all channels there were.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import msgspec

from tidegate.elements import (
    MIN_WATERMARK,
    Barrier,
    Batch,
    BatchCursor,
    Element,
    Idle,
    RecordOrigin,
    Watermark,
    batch_of,
)
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

__all__ = ["Backlog", "InFlightElement", "Recording", "overtakable"]


@dataclass(frozen=True, slots=True)
class InFlightElement:
    """Records that were on their way to a step, or how far event time is for it."""

    uid: OperatorUid
    side: int
    element: Batch | Watermark
    edge: str = ""
    """The exchange that the records were behind."""
    codec: Codec | None = None
    """Of the records."""


class _Records(msgspec.Struct, frozen=True, tag="records", omit_defaults=True):
    """A batch without its keys, which its exchange makes again."""

    values: bytes
    timestamps: list[int] | None = None
    origins: list[RecordOrigin | None] | None = None
    columns: dict[str, Any] = {}
    """All others."""


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

    Args:
        marks: How far event time is in each channel, and whether it is idle.
        overtaken: The channels whose barriers are still to come.
    """

    def __init__(
        self,
        checkpoint: CheckpointId,
        vertex: JobVertex,
        subtask: int,
        marks: Mapping[ChannelId, tuple[int, bool]],
        overtaken: Collection[Hashable],
    ) -> None:
        self._checkpoint = checkpoint
        self._subtask = subtask
        self._head = vertex.head.uid
        self._open = set(overtaken)
        edges = {edge.name: edge for edge in vertex.inputs}
        codecs = {name: codec_for(edge.value_type) for name, edge in edges.items()}
        self._codecs = {channel: codecs[channel.edge] for channel in marks}
        self._lanes = {
            channel: _Lane(channel, edges[channel.edge].side, self._codecs[channel].fingerprint, *mark, [])
            for channel, mark in marks.items()
        }
        self._before: dict[OperatorUid, list[_Lane]] = {}

    def add(self, channel: ChannelId, element: Element) -> None:
        """Keep an element that is in front of the channel's barrier; one behind it is not asked for.

        Raises:
            RecordError: a value cannot be kept.
        """
        if channel not in self._open:
            return
        match element:
            case Batch():
                self._lanes[channel].elements.append(_encoded(element, self._codecs[channel]))
            case Watermark() | Idle():
                self._lanes[channel].elements.append(element)
            case Barrier() if element.checkpoint >= self._checkpoint:
                self._open.discard(channel)

    def add_backlog(self, backlog: Backlog, time: int) -> None:
        """Keep what an earlier checkpoint found on its way and is not worked off; event time is at `time`."""
        self._before = backlog.lanes(self._subtask, time)

    def encoded(self) -> dict[OperatorUid, bytes]:
        """All of it as it is stored, by the step it is on its way to. Ends of the input come again, as sources stay."""
        before, live = dict(self._before), list(self._lanes.values())
        if any(lane.elements for lane in live) or self._head in before:
            before[self._head] = before.get(self._head, []) + live
        return {uid: msgspec.msgpack.encode(_InFlight(self._subtask, lanes)) for uid, lanes in before.items()}


class Backlog:
    """What was on its way to the steps of a subtask at the checkpoint it goes on from, in the order to process it.

    What is nearer to the end of a chain was there before. Only the chain's first step has inputs of its own, so only
    its time moves; a step that was first and is not any more gets records.
    """

    def __init__(self, vertex: JobVertex, env: ChainEnvironment) -> None:
        self._vertex = vertex
        self._env = env
        self._found = _found(vertex, env)
        self._next: deque[InFlightElement] = deque()
        self._begun: tuple[InFlightElement, BatchCursor] | None = None
        """Records of which some are worked off."""
        self._some = any(env.operator(uid).in_flight for uid in vertex.nodes)

    def __bool__(self) -> bool:
        """Whether something may be left."""
        return self._some

    def take(self, records: int) -> InFlightElement | None:
        """The next element, with as many records at most; None at the end.

        Raises:
            StateCorruptError: a file is gone or damaged.
            StateFormatError: the input they were on their way to is of another kind now.
        """
        if self._begun is None:
            found = self._next.popleft() if self._next else next(self._found, None)
            if found is None:
                self._some = False
            if found is None or isinstance(found.element, Watermark):
                return found
            self._begun = found, BatchCursor(found.element)
        found, cursor = self._begun
        piece = replace(found, element=cursor.take(records))
        if not cursor:
            self._begun = None
        return piece

    def lanes(self, subtask: int, time: int) -> dict[OperatorUid, list[_Lane]]:
        """What is left, as it is stored: as if one channel for each exchange had brought it, since event time `time`."""
        if self._begun is not None:
            found, cursor = self._begun
            self._next.appendleft(replace(found, element=cursor.rest()))
            self._begun = None
        self._next += self._found
        head = self._vertex.head.uid
        lanes: dict[OperatorUid, dict[tuple[str, int], _Lane]] = {}
        for uid, side, edge, codec in ((f.uid, f.side, f.edge, f.codec) for f in self._next):
            of_step = lanes.setdefault(uid, {})
            if codec is not None and (edge, side) not in of_step:
                # No sender has this number, so no channel of the run has this name.
                channel = ChannelId(edge, -1 - len(of_step), subtask)
                mark = time if uid == head else MIN_WATERMARK
                of_step[edge, side] = _Lane(channel, side, codec.fingerprint, mark, False, [])
        for found in self._next:
            of_step = lanes[found.uid]
            if isinstance(found.element, Watermark):
                for lane in of_step.values():
                    lane.elements.append(found.element)
            elif found.codec is not None:
                of_step[found.edge, found.side].elements.append(_encoded(found.element, found.codec))
        return {uid: list(of_step.values()) for uid, of_step in lanes.items() if of_step}


def _encoded(batch: Batch, codec: Codec) -> _Records:
    columns = batch.columns()
    values, _ = codec.encode_batch(columns.pop("values")), columns.pop("keys", None)
    return _Records(values, columns.pop("timestamps", None), columns.pop("origins", None), columns)


def _found(vertex: JobVertex, env: ChainEnvironment) -> Iterator[InFlightElement]:
    for uid in reversed(vertex.nodes):
        kept = [_DECODER.decode(env.state.files.fetch(each)) for each in env.operator(uid).in_flight]
        lanes = [(each.subtask, lane) for each in kept for lane in each.lanes]
        time = Inputs(lane.channel for _, lane in lanes)
        for _, lane in lanes:
            time.watermark(lane.channel, lane.time)
            time.idle(lane.channel, lane.idle)
        if time.now > MIN_WATERMARK and uid == vertex.head.uid:
            yield InFlightElement(uid, 0, Watermark(time.now))
        for subtask, lane in lanes:
            yield from _of_lane(lane, _Input(vertex, uid, lane, subtask, env), time)


def _of_lane(lane: _Lane, taken: _Input, time: Inputs) -> Iterator[InFlightElement]:
    for element in lane.elements:
        if isinstance(element, _Records):
            for batch in taken.batches(element):
                yield InFlightElement(taken.uid, lane.side, batch, lane.channel.edge, taken.codec)
            continue
        moved = (
            time.watermark(lane.channel, element.timestamp)
            if isinstance(element, Watermark)
            else time.idle(lane.channel, element.idle)
        )
        if moved is not None and taken.first:
            yield InFlightElement(taken.uid, lane.side, Watermark(moved))


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

    def batches(self, records: _Records) -> list[Batch]:
        """What of some records is for this subtask."""
        edge = self._edge
        if edge is None or not isinstance(edge.partition, Hash | Global):
            return [self._decoded(records)] if self._mine else []
        shares = router(edge, self._index)(self._decoded(records))
        return [share for target, share in shares if target == self._index]

    def _decoded(self, records: _Records) -> Batch:
        values = self.codec.decode_batch(records.values)
        named = {"timestamps": records.timestamps, "origins": records.origins}
        return batch_of(values, None, named | records.columns)

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
    def codec(self) -> Codec:
        """Of the records, which must be of the type they were stored with."""
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
