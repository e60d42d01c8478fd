"""Stream graph: the program with uids, parallelism and partitioning of every step resolved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tidegate.errors import ConfigError
from tidegate.ids import OperatorUid
from tidegate.keys import check_max_parallelism, default_max_parallelism
from tidegate.runtime.graph.changelogs import Changelog, changelogs
from tidegate.runtime.graph.dead_letters import dead_letter_steps
from tidegate.runtime.graph.mode import RuntimeMode, runs_as_batch
from tidegate.runtime.graph.names import FunctionNames, title
from tidegate.runtime.graph.shapes import Shape, shapes
from tidegate.runtime.graph.transformations import (
    Chaining,
    Forward,
    Hash,
    Input,
    KeyedForward,
    Partition,
    Rebalance,
    Transformation,
)
from tidegate.runtime.operators.operator import Role, StepKind
from tidegate.types import TypeInformation

__all__ = ["DEFAULT_GROUP", "StreamEdge", "StreamGraph", "StreamNode", "build_stream_graph"]

DEFAULT_GROUP: Final = "default"
"""The slot sharing group of steps that name none."""


@dataclass(frozen=True, slots=True)
class StreamEdge:
    """Records go from `source` to `target`, distributed by `partition`."""

    source: OperatorUid
    target: OperatorUid
    partition: Partition
    side: int = 0
    """1 for the second input of a step with two."""
    feedback: bool = False
    """Whether it is the feedback edge of an iteration."""


@dataclass(frozen=True, slots=True)
class StreamNode:
    """One step of the program, resolved."""

    uid: OperatorUid
    name: str
    kind: StepKind
    payload: Any
    parallelism: int
    max_parallelism: int
    output_type: TypeInformation | None
    title: str = ""
    """Its display name in plans."""
    number: int = 0
    """Its id in plans; parts of the program that are not steps, such as `key_by`, have ids too."""
    chaining: Chaining = "always"
    slot_sharing_group: str = DEFAULT_GROUP
    co_location_group: str | None = None
    buffer_timeout_ms: int | None = None
    watermarks: Any = None
    """Sources only: the watermark strategy."""
    shape: Shape | None = None
    """Its shape, stored with checkpoints under its uid."""
    changelog: Changelog = None
    """Which changes it emits; None if unknown."""


@dataclass(frozen=True, slots=True)
class StreamGraph:
    """Nodes by uid in topological order, the edges between them, and whether chaining is enabled."""

    nodes: dict[OperatorUid, StreamNode]
    edges: tuple[StreamEdge, ...]
    chaining: bool = True
    batch: bool = False
    """Whether it runs as a batch job."""

    @property
    def iterative(self) -> bool:
        """Whether it has an iteration."""
        return any(edge.feedback for edge in self.edges)

    @property
    def iterations(self) -> dict[OperatorUid, set[OperatorUid]]:
        """The steps of each iteration: those between its head and its feedback edge."""
        return {edge.target: self._round(edge) for edge in self.edges if edge.feedback}

    def inputs(self, uid: OperatorUid) -> list[StreamEdge]:
        """Edges that end at `uid`; feedback edges come last."""
        return [edge for edge in self.edges if edge.target == uid]

    def outputs(self, uid: OperatorUid) -> list[StreamEdge]:
        """Edges that start at `uid`."""
        return [edge for edge in self.edges if edge.source == uid]

    def _round(self, back: StreamEdge) -> set[OperatorUid]:
        behind, before = {back.target}, {back.source}
        for uid in self.nodes:
            if any(edge.source in behind for edge in self.inputs(uid)):
                behind.add(uid)
        for uid in reversed(self.nodes):
            if any(edge.target in before for edge in self.outputs(uid)):
                before.add(uid)
        return (behind & before) - {back.target}


def with_watermark_interval(graph: StreamGraph, every_ms: int) -> StreamGraph:
    """The same program with this watermark interval."""
    nodes = dict(graph.nodes)
    for uid, node in nodes.items():
        if node.watermarks is not None:
            nodes[uid] = replace(node, watermarks=replace(node.watermarks, every_ms=every_ms))
        elif node.kind.stamps:
            nodes[uid] = replace(node, payload=replace(node.payload, every_ms=every_ms))
    return replace(graph, nodes=nodes)


def build_stream_graph(
    sinks: Iterable[Transformation],
    *,
    parallelism: int,
    max_parallelism: int | None = None,
    restored: Mapping[OperatorUid, int] | None = None,
    regrouping: Collection[OperatorUid] = (),
    chaining: bool = True,
    mode: RuntimeMode = "STREAMING",
) -> StreamGraph:
    """Resolve the program that ends in `sinks`, or in other steps if it has no sink.

    `restored` holds the max parallelism of restored state; it overrides a default, and another explicit value is an
    error, except for the operators in `regrouping`.

    Raises:
        ConfigError: there is no step, a uid is used twice, a parallelism or a co-location is impossible, an
            iteration is not closed, a step certainly gets changes that it does not accept, or the mode is BATCH and
            the program cannot run as a batch job.
    """
    order = _topological(sinks)
    order += list(dead_letter_steps(order))
    if not order:
        raise ConfigError(
            "the program has no sink and no step behind a source, so nothing would run; end it with sink_to(...) or print()"
        )
    numbers = _number(order)
    steps = [step for step in order if step.kind.role is not Role.UNION]
    uids = _assign_uids(steps)
    names = FunctionNames()
    nodes: dict[OperatorUid, StreamNode] = {}
    edges: list[StreamEdge] = []
    for step in steps:
        uid, inputs = uids[id(step)], list(_real_inputs(step.inputs))
        before = [nodes[uids[id(source.transformation)]] for source in inputs]
        groups = _key_groups(uid, inputs, before, edges, nodes)
        if groups is not None and step.max_parallelism not in (None, groups):
            raise ConfigError(
                f"operator {uid!r}: max parallelism is {step.max_parallelism}; the step that partitions its records by key "
                f"has {groups}; give both the same, or use key_by(...)"
            )
        size = _size(
            step, uid, before, parallelism, groups or max_parallelism, restored or {}, uid in regrouping
        )
        nodes[uid] = _resolve(step, uid, before, size, title(step, names), numbers[id(step)])
        edges += [
            StreamEdge(node.uid, uid, _partition(source.partition, node, nodes[uid]), source.side)
            for source, node in zip(inputs, before, strict=True)
        ]
    edges += _feedback(steps, uids, nodes)
    _check_co_location(nodes.values())
    counted = {uids[id(step)] for step in steps if step.uid is None}
    found = shapes(nodes.values(), edges, counted)
    modes = changelogs(nodes, edges)
    nodes = {uid: replace(node, shape=found[uid], changelog=modes[uid]) for uid, node in nodes.items()}
    batch = runs_as_batch(mode, nodes.values())
    return StreamGraph(nodes, tuple(map(_sorted, edges) if batch else edges), chaining, batch)


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
            f"uid {twice[0]!r} is given to {taken[twice[0]]} operators; state is restored by uid; give each operator its own"
        )
    numbers: Counter[str] = Counter()
    for step in order:
        uid = step.uid
        while uid is None or (uid in taken and uid != step.uid):
            numbers[step.name] += 1
            uid = f"{step.name}-{numbers[step.name]}"
        uids[id(step)] = OperatorUid(uid)
    return uids


def _number(order: list[Transformation]) -> dict[int, int]:
    """Ids from 1 on for steps and for the partitions between them."""
    numbers: dict[int, int] = {}
    for step in order:
        for source in step.inputs:
            if source.partition is not None:
                numbers.setdefault(id(source.partition), len(numbers) + 1)
        numbers[id(step)] = len(numbers) + 1
    return numbers


def _real_inputs(inputs: Iterable[Input]) -> Iterator[Input]:
    """The inputs with unions replaced by their own inputs, because a union is not a step."""
    for source in inputs:
        if source.transformation.kind.role is not Role.UNION:
            yield source
            continue
        for each in _real_inputs(source.transformation.inputs):
            partition = source.partition if source.partition is not None else each.partition
            yield Input(each.transformation, partition, source.side)


def _key_groups(
    uid: OperatorUid,
    inputs: list[Input],
    before: list[StreamNode],
    edges: list[StreamEdge],
    nodes: Mapping[OperatorUid, StreamNode],
) -> int | None:
    """How many key groups the records have that a step takes as partitioned already; None if no step has done that.

    Raises:
        ConfigError: they come from steps with different numbers of them.
    """

    def of(node: StreamNode) -> int | None:
        ways = [edge for edge in edges if edge.target == node.uid]
        if ways and all(isinstance(edge.partition, Hash) for edge in ways):
            return node.max_parallelism
        return (
            of(nodes[ways[0].source]) if len(ways) == 1 and isinstance(ways[0].partition, Forward) else None
        )

    kept = zip(inputs, before, strict=True)
    found = {of(node) for source, node in kept if isinstance(source.partition, KeyedForward)} - {None}
    if len(found) > 1:
        raise ConfigError(
            f"operator {uid!r} takes records as partitioned by key that come from steps with different max parallelism; "
            f"got {', '.join(map(str, sorted(filter(None, found))))}; give these steps the same, or use key_by(...)"
        )
    return found.pop() if found else None


def _sorted(edge: StreamEdge) -> StreamEdge:
    """In a batch job each step with keys sorts its input, which is what stands between two exchanges."""
    by = edge.partition
    return replace(edge, partition=Hash(by.selector, by.key_type)) if isinstance(by, KeyedForward) else edge


def _size(
    step: Transformation,
    uid: OperatorUid,
    before: list[StreamNode],
    parallelism: int,
    max_parallelism: int | None,
    restored: Mapping[OperatorUid, int],
    regrouping: bool,
) -> tuple[int, int]:
    """Parallelism and max parallelism."""
    if step.kind.role in (Role.SIDE_OUTPUT, Role.FEEDBACK):
        return before[0].parallelism, before[0].max_parallelism
    own = step.parallelism or step.usual_parallelism or parallelism
    asked = step.max_parallelism or max_parallelism
    written = restored.get(uid)
    if asked is not None and written is not None and asked != written and not regrouping:
        raise ConfigError(
            f"operator {uid!r}: max parallelism is {asked} but its state was written with {written}; "
            f"set it to {written}, restore a canonical savepoint, or start with --fresh"
        )
    most = asked or written or default_max_parallelism(own)
    check_max_parallelism(most, own)
    return own, most


def _resolve(
    step: Transformation,
    uid: OperatorUid,
    before: list[StreamNode],
    size: tuple[int, int],
    called: str,
    number: int,
) -> StreamNode:
    groups = {node.slot_sharing_group for node in before}
    inherited = groups.pop() if len(groups) == 1 else DEFAULT_GROUP
    usual: Chaining = "head" if step.kind.role is Role.SOURCE else "always"
    return StreamNode(
        uid,
        step.name,
        step.kind,
        step.payload,
        *size,
        step.output_type,
        title=called,
        number=number,
        # A side output is part of the step that emits it.
        chaining=before[0].chaining if step.kind.role is Role.SIDE_OUTPUT else step.chaining or usual,
        slot_sharing_group=step.slot_sharing_group or inherited,
        co_location_group=step.co_location_group,
        buffer_timeout_ms=before[0].buffer_timeout_ms
        if step.kind.role is Role.SIDE_OUTPUT
        else step.buffer_timeout_ms,
        watermarks=step.watermarks,
    )


def _feedback(
    steps: list[Transformation], uids: dict[int, OperatorUid], nodes: dict[OperatorUid, StreamNode]
) -> list[StreamEdge]:
    """The feedback edges, one per iteration; both ends are co-located, so feedback stays in its process."""
    edges = []
    for end in (step for step in steps if step.kind.role is Role.FEEDBACK):
        head, tail = nodes[uids[id(end.payload)]], nodes[uids[id(end)]]
        for source in _real_inputs(end.inputs):
            before = nodes[uids[id(source.transformation)]]
            if before.parallelism != head.parallelism:
                raise ConfigError(
                    f"feedback from {before.uid!r} (parallelism {before.parallelism}) to iteration {head.uid!r} "
                    f"(parallelism {head.parallelism}) needs equal parallelism; use set_parallelism(...)"
                )
        together = f"iteration {head.uid!r}"
        nodes[tail.uid] = replace(
            tail,
            title=f"IterationSink-{head.number}",
            slot_sharing_group=head.slot_sharing_group,
            co_location_group=together,
        )
        nodes[head.uid] = replace(head, title=f"IterationSource-{head.number}", co_location_group=together)
        edges.append(StreamEdge(tail.uid, head.uid, Forward(), feedback=True))
    closed = {edge.target for edge in edges}
    for node in nodes.values():
        if node.kind.role is Role.ITERATION and node.uid not in closed:
            raise ConfigError(f"iteration {node.uid!r} has no feedback stream; close it with close_with(...)")
    return edges


def _check_co_location(nodes: Iterable[StreamNode]) -> None:
    first: dict[str, StreamNode] = {}
    for node in nodes:
        if node.co_location_group is None:
            continue
        other = first.setdefault(node.co_location_group, node)
        for what in ("parallelism", "slot_sharing_group"):
            one, two = getattr(other, what), getattr(node, what)
            if one != two:
                raise ConfigError(
                    f"operators {other.uid!r} and {node.uid!r} are co-located as {node.co_location_group!r} but "
                    f"have {what.replace('_', ' ')} {one!r} and {two!r}; give both the same"
                )


def _partition(asked: Partition | None, source: StreamNode, target: StreamNode) -> Partition:
    if asked is not None and not isinstance(asked, Forward):
        return asked
    if source.parallelism == target.parallelism:
        return asked or Forward()
    if isinstance(asked, KeyedForward):
        raise ConfigError(
            f"records of {source.uid!r} (parallelism {source.parallelism}) cannot stay in their subtasks for {target.uid!r} "
            f"(parallelism {target.parallelism}); give both the same, or use key_by(...)"
        )
    if isinstance(asked, Forward):
        raise ConfigError(
            f"forward from {source.uid!r} (parallelism {source.parallelism}) to {target.uid!r} "
            f"(parallelism {target.parallelism}) needs equal parallelism; use rebalance()"
        )
    return Rebalance()
