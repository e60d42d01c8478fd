"""In-flight records of unaligned checkpoints: stored with the checkpoint, processed first after a restore.

`Recording` stores the records in front of the barriers, encoded at once, because functions may change the objects later.
`Backlog` returns them to subtasks at any parallelism: each subtask reads all of them and keeps its own. Records behind a
keyed exchange go to the owners of their keys, other records to one of the subtasks. Records of a backlog that are not
processed when the next unaligned checkpoint starts are stored with that one, too.

The stored data of a channel starts with its watermark and contains its changes, so after the restore the watermark is
the minimum over all former channels, as it would have been.
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
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.graph.transformations import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Hash,
    Rebalance,
    Shuffle,
)
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.task.alignment import Inputs
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.routing import Route, by_key, router
from tidegate.serde import Codec, codec_for
from tidegate.types import TypeInformation

__all__ = ["Backlog", "InFlightElement", "Recording", "overtakable"]


@dataclass(frozen=True, slots=True)
class InFlightElement:
    """In-flight records of a step, or its watermark."""

    uid: OperatorUid
    side: int
    element: Batch | Watermark
    edge: str = ""
    """The exchange in which the records were."""
    codec: Codec | None = None
    """Of the records."""


class _Records(msgspec.Struct, frozen=True, tag="records", omit_defaults=True):
    """A batch without its keys, which the exchange computes again."""

    values: bytes
    timestamps: list[int] | None = None
    origins: list[RecordOrigin | None] | None = None
    columns: dict[str, Any] = {}
    """All others."""


class _Lane(msgspec.Struct, frozen=True):
    """One channel: its watermark, then its elements."""

    channel: ChannelId
    side: int
    stored: str
    """The fingerprint of the type of its values."""
    time: int
    idle: bool
    elements: list[_Records | Watermark | Idle]


class _InFlight(msgspec.Struct, frozen=True):
    """All input channels of one subtask."""

    subtask: int
    lanes: list[_Lane]


def overtakable(edge: JobEdge) -> bool:
    """Whether in-flight records of an edge can be redistributed after a restore.

    They cannot if each receiver gets a copy, if the order must be kept, or if the program chooses the receiver; barriers
    do not overtake records on such edges.
    """
    redistributable = isinstance(edge.partition, Hash | Rebalance | Shuffle | Global)
    return redistributable and not isinstance(edge.partition, Forward)


class Recording:
    """Records the elements in front of the overtaken barriers of a checkpoint.

    Args:
        marks: The watermark of each channel, and whether it is idle.
        overtaken: The channels whose barriers have not arrived.
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
        """Record an element in front of the channel's barrier; callers do not pass elements behind it.

        Raises:
            RecordError: a value cannot be encoded.
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
        """Record the unprocessed rest of an earlier checkpoint's records; the watermark is `time`."""
        self._before = backlog.lanes(self._subtask, time)

    def encoded(self) -> dict[OperatorUid, bytes]:
        """The encoded records by receiving step. Ends of the input are not stored: sources send them again."""
        before, live = dict(self._before), list(self._lanes.values())
        if any(lane.elements for lane in live) or self._head in before:
            before[self._head] = before.get(self._head, []) + live
        return {uid: msgspec.msgpack.encode(_InFlight(self._subtask, lanes)) for uid, lanes in before.items()}


class Backlog:
    """In-flight records for the steps of a subtask at the restored checkpoint, in processing order.

    Records for steps at the end of a chain come first, because they are older. Only the first step of a chain has inputs
    of its own, so only its watermark advances; a step that is no longer the first of a chain gets records only.
    """

    def __init__(self, vertex: JobVertex, env: ChainEnvironment) -> None:
        self._vertex = vertex
        self._env = env
        self._found = _found(vertex, env)
        self._next: deque[InFlightElement] = deque()
        self._begun: tuple[InFlightElement, BatchCursor] | None = None
        """Records of which some are processed."""
        self._some = any(env.operator(uid).in_flight for uid in vertex.nodes)

    def __bool__(self) -> bool:
        """Whether there may be more elements."""
        return self._some

    def take(self, records: int) -> InFlightElement | None:
        """The next element with at most this many records; None at the end.

        Raises:
            StateCorruptError: a file is missing or damaged.
            StateFormatError: the input of the step is of another kind now.
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
        """The remaining elements in stored form, as one channel for each exchange with watermark `time`."""
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
                # No sender has this number, so no real channel has this name.
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
    columns = batch.in_rows().columns()
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
    """An input of a step that restores the elements of a channel of the previous run."""

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
        """The records that belong to this subtask."""
        if self._route is None:
            return [self._decoded(records)] if self._mine else []
        return [share for target, share in self._route(self._decoded(records)) if target == self._index]

    def _decoded(self, records: _Records) -> Batch:
        values = self.codec.decode_batch(records.values)
        named = {"timestamps": records.timestamps, "origins": records.origins}
        return batch_of(values, None, named | records.columns)

    @cached_property
    def _route(self) -> Route | None:
        """The router to the owners of keys; None where any one subtask may have the records."""
        edge, vertex = self._edge, self._vertex
        partition = edge.partition if edge is not None else vertex.rekeyed.get(self.uid)
        if isinstance(partition, Hash):
            node = edge.node if edge is not None else self._before.uid
            return by_key(partition, node, vertex.parallelism, vertex.max_parallelism)
        return router(edge, self._index) if edge is not None and isinstance(partition, Global) else None

    @property
    def _before(self) -> StreamNode:
        """The step in front of it in its chain."""
        nodes, follows = self._vertex.nodes, self._vertex.follows
        return next(node for uid, node in nodes.items() if self.uid in follows[uid])

    @cached_property
    def _edge(self) -> JobEdge | None:
        """The exchange of this input; None inside a chain."""
        if not self.first:
            return None
        alike = [edge for edge in self._vertex.inputs if edge.side == self._lane.side]
        same = [edge for edge in alike if edge.name == self._lane.channel.edge]
        for edge in (*same, *alike):
            if not isinstance(edge.partition, Broadcast | Custom):
                return edge
        raise self._misfit("an exchange by key or round-robin")

    @cached_property
    def codec(self) -> Codec:
        """The codec of the records, whose type must be the stored one."""
        codec = codec_for(self._type)
        if codec.fingerprint != self._lane.stored:
            raise self._misfit(f"type {codec.fingerprint}")
        return codec

    @property
    def _type(self) -> TypeInformation | None:
        return self._edge.value_type if self._edge is not None else self._before.output_type

    def _misfit(self, expected: str) -> StateFormatError:
        return StateFormatError(
            f"cannot restore the in-flight records of input {self._lane.side} of operator {self.uid!r}; got records "
            f"of type {self._lane.stored}; expected {expected}; start the old version of the program, take a savepoint, "
            "which has no in-flight records, and restore that"
        )


_DECODER: Final = msgspec.msgpack.Decoder(_InFlight)
