"""The program with everything resolved: unique uids, parallelism, how records get from step to step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.errors import ConfigError
from tidegate.ids import OperatorUid
from tidegate.keys import check_max_parallelism, default_max_parallelism
from tidegate.runtime.graph.transformations import Forward, Kind, Partition, Rebalance, Transformation
from tidegate.types import TypeInformation

__all__ = ["StreamEdge", "StreamGraph", "StreamNode", "build_stream_graph"]


@dataclass(frozen=True, slots=True)
class StreamEdge:
    """Records of `source` go to `target` as `partition` says."""

    source: OperatorUid
    target: OperatorUid
    partition: Partition
    side: int = 0
    """1 for the second input of a step with two."""


@dataclass(frozen=True, slots=True)
class StreamNode:
    """One step of the program, resolved."""

    uid: OperatorUid
    name: str
    kind: Kind
    payload: Any
    parallelism: int
    max_parallelism: int
    output_type: TypeInformation | None


@dataclass(frozen=True, slots=True)
class StreamGraph:
    """Nodes by uid in topological order, and the edges between them."""

    nodes: dict[OperatorUid, StreamNode]
    edges: tuple[StreamEdge, ...]

    def inputs(self, uid: OperatorUid) -> list[StreamEdge]:
        """Edges that end at `uid`."""
        return [edge for edge in self.edges if edge.target == uid]

    def outputs(self, uid: OperatorUid) -> list[StreamEdge]:
        """Edges that start at `uid`."""
        return [edge for edge in self.edges if edge.source == uid]


def build_stream_graph(
    sinks: Iterable[Transformation],
    *,
    parallelism: int,
    max_parallelism: int | None = None,
    restored: Mapping[OperatorUid, int] | None = None,
) -> StreamGraph:
    """Resolve the program that ends in `sinks`.

    `restored` holds the max parallelism that state was written with; it wins over a default and refuses another.

    Raises:
        ConfigError: there is no sink, a uid is used twice, a parallelism is impossible.
    """
    order = _topological(sinks)
    if not order:
        raise ConfigError(
            "the program has no sink, so nothing would run; end it with sink_to(...) or print()"
        )
    uids = _assign_uids(order)
    nodes = {
        uids[id(step)]: _resolve(step, uids[id(step)], parallelism, max_parallelism, restored or {})
        for step in order
    }
    edges = tuple(
        StreamEdge(
            uids[id(source.transformation)],
            uids[id(step)],
            _partition(source.partition, nodes[uids[id(source.transformation)]], nodes[uids[id(step)]]),
            source.side,
        )
        for step in order
        for source in step.inputs
    )
    return StreamGraph(nodes, edges)


def _topological(sinks: Iterable[Transformation]) -> list[Transformation]:
    order: list[Transformation] = []
    seen: set[int] = set()

    def visit(step: Transformation) -> None:
        if id(step) in seen:
            return
        seen.add(id(step))
        for source in step.inputs:
            visit(source.transformation)
        order.append(step)

    for sink in sinks:
        visit(sink)
    return order


def _assign_uids(order: list[Transformation]) -> dict[int, OperatorUid]:
    uids: dict[int, OperatorUid] = {}
    taken = Counter(step.uid for step in order if step.uid is not None)
    twice = [uid for uid, count in taken.items() if count > 1]
    if twice:
        raise ConfigError(
            f"uid {twice[0]!r} is given to {taken[twice[0]]} operators; state is found by uid, so each needs its own"
        )
    numbers: Counter[str] = Counter()
    for step in order:
        uid = step.uid
        while uid is None or (uid in taken and uid != step.uid):
            numbers[step.name] += 1
            uid = f"{step.name}-{numbers[step.name]}"
        uids[id(step)] = OperatorUid(uid)
    return uids


def _resolve(
    step: Transformation,
    uid: OperatorUid,
    parallelism: int,
    max_parallelism: int | None,
    restored: Mapping[OperatorUid, int],
) -> StreamNode:
    own = step.parallelism if step.parallelism is not None else parallelism
    asked = step.max_parallelism or max_parallelism
    written = restored.get(uid)
    if asked is not None and written is not None and asked != written:
        raise ConfigError(
            f"operator {uid!r}: max parallelism is {asked} but its state was written with {written}; "
            f"set it to {written} or start with --fresh"
        )
    most = written or asked or default_max_parallelism(own)
    check_max_parallelism(most, own)
    return StreamNode(uid, step.name, step.kind, step.payload, own, most, step.output_type)


def _partition(asked: Partition | None, source: StreamNode, target: StreamNode) -> Partition:
    if asked is not None and not isinstance(asked, Forward):
        return asked
    if source.parallelism == target.parallelism:
        return Forward()
    if isinstance(asked, Forward):
        raise ConfigError(
            f"forward from {source.uid!r} (parallelism {source.parallelism}) to {target.uid!r} "
            f"(parallelism {target.parallelism}) needs equal parallelism; use rebalance()"
        )
    return Rebalance()
