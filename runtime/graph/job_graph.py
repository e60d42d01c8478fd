"""Job graph: the unit of scheduling, with steps that can share a thread chained into one vertex.

A chain is a tree that starts at a source or behind an exchange; its inner edges are function calls, the edges
between vertices are exchanges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from tidegate.ids import OperatorUid, Subtask
from tidegate.runtime.graph.chaining import obstacles
from tidegate.runtime.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from tidegate.runtime.graph.transformations import (
    NEVER_MS,
    Forward,
    Hash,
    KeyedForward,
    Partition,
    Rescale,
)
from tidegate.runtime.operators.operator import Role
from tidegate.types import TypeInformation

__all__ = [
    "Distribution",
    "JobEdge",
    "JobGraph",
    "JobVertex",
    "build_job_graph",
]

Distribution: TypeAlias = Literal["pointwise", "all-to-all"]
"""Whether each subtask is connected to some subtasks behind an exchange, or to all of them."""


_DEEPEST: Final = 16
"""Python nests 20 loops at most, and a chain becomes one function."""


@dataclass(frozen=True, slots=True)
class JobEdge:
    """An exchange: the output of `node` in vertex `source` is distributed to the subtasks of vertex `target`."""

    source: str
    node: OperatorUid
    target: str
    partition: Partition
    value_type: TypeInformation | None
    source_parallelism: int
    target_parallelism: int
    target_max_parallelism: int
    side: int = 0
    number: int = 0
    """Distinguishes edges between the same two steps."""
    buffer_timeout_ms: int | None = None
    """How long records may wait for others before they are sent; None: the setting of the job."""
    feedback: bool = False
    """Whether it is the feedback edge of an iteration."""
    blocking: bool = False
    """Whether the target starts only after all input has arrived."""
    traced: bool = False
    """Whether its records carry their origin in the source."""

    @property
    def name(self) -> str:
        """Unique within the job graph."""
        return f"{self.node}->{self.target}" + (f"#{self.number}" if self.number else "")

    @property
    def distribution(self) -> Distribution:
        """Which subtasks it connects."""
        return "pointwise" if isinstance(self.partition, Forward | Rescale) else "all-to-all"

    def reached_from(self, index: int) -> range:
        """The subtasks of the target that subtask `index` of the source is connected to."""
        match self.partition:
            case Forward():
                return range(index, index + 1)
            case Rescale():
                return _share(index, self.source_parallelism, self.target_parallelism)
            case _:
                return range(self.target_parallelism)

    def reaching(self, index: int) -> list[int]:
        """The subtasks of the source that are connected to subtask `index` of the target."""
        return [source for source in range(self.source_parallelism) if index in self.reached_from(source)]


@dataclass(frozen=True, slots=True)
class JobVertex:
    """A chain: its steps, the head first, and the edges between them."""

    id: str
    name: str
    nodes: dict[OperatorUid, StreamNode]
    follows: dict[OperatorUid, tuple[OperatorUid, ...]]
    parallelism: int
    max_parallelism: int
    inputs: tuple[JobEdge, ...]
    outputs: tuple[JobEdge, ...]
    batch: bool = False
    rekeyed: Mapping[OperatorUid, KeyedForward] = field(default_factory=dict)
    """How the input of each step behind the first is keyed, if it has keys."""
    journaled: Collection[OperatorUid] = ()
    """The steps of which each change of state is logged with the record that caused it."""

    @property
    def head(self) -> StreamNode:
        """The first step."""
        return next(iter(self.nodes.values()))

    @property
    def is_source(self) -> bool:
        """Whether it reads a source instead of another vertex."""
        return self.head.kind.role is Role.SOURCE

    @property
    def traced(self) -> bool:
        """Whether it needs the origin of each record."""
        return bool(self.journaled) or any(edge.traced for edge in self.outputs)

    @property
    def keyed(self) -> dict[OperatorUid, Hash]:
        """How the input of each step with keys is keyed; the first step has keys if all streams of its first input do."""
        partitions = [edge.partition for edge in self.inputs if edge.side == 0]
        keys = [partition for partition in partitions if isinstance(partition, Hash)]
        first = {self.head.uid: keys[0]} if keys and len(keys) == len(partitions) else {}
        return first | dict(self.rekeyed)

    @property
    def slot_sharing_group(self) -> str:
        """The slot sharing group of its steps."""
        return self.head.slot_sharing_group

    @property
    def co_location_group(self) -> str | None:
        """The group whose i-th subtasks share a slot, if it is in one."""
        groups = (node.co_location_group for node in self.nodes.values())
        return next((group for group in groups if group is not None), None)

    @property
    def subtasks(self) -> list[Subtask]:
        """Its parallel instances."""
        return [Subtask(self.id, index) for index in range(self.parallelism)]


@dataclass(frozen=True, slots=True)
class JobGraph:
    """All vertices by id, upstream before downstream."""

    vertices: dict[str, JobVertex]
    batch: bool = False
    """Whether it is a batch job: every exchange is blocking, and the only checkpoint is the final one."""

    @property
    def subtasks(self) -> list[Subtask]:
        """Every subtask of the job."""
        return [subtask for vertex in self.vertices.values() for subtask in vertex.subtasks]

    @property
    def slots(self) -> int:
        """The number of slots of the job: for each sharing group the parallelism of its widest vertex.

        In a batch job the groups run one after the other, so the widest vertex of all groups counts.
        """
        widest: dict[str, int] = {}
        for vertex in self.vertices.values():
            group = vertex.slot_sharing_group if not self.batch else ""
            widest[group] = max(widest.get(group, 0), vertex.parallelism)
        return sum(widest.values())

    @property
    def iterative(self) -> bool:
        """Whether it has an iteration."""
        return any(edge.feedback for vertex in self.vertices.values() for edge in vertex.inputs)

    @property
    def nodes(self) -> dict[OperatorUid, StreamNode]:
        """Every step of every vertex."""
        return {uid: node for vertex in self.vertices.values() for uid, node in vertex.nodes.items()}


def build_job_graph(graph: StreamGraph) -> JobGraph:
    """Chain all steps that can be chained."""
    heads: dict[OperatorUid, OperatorUid] = {}
    depths: dict[OperatorUid, int] = {}
    for uid, node in graph.nodes.items():
        edges = graph.inputs(uid)
        depth = depths[edges[0].source] + node.kind.nests if edges else 0
        chained = _chained(graph, node, depth)
        heads[uid], depths[uid] = (heads[edges[0].source], depth) if chained else (uid, 1)
    members: dict[OperatorUid, list[StreamNode]] = {}
    for uid, head in heads.items():
        members.setdefault(head, []).append(graph.nodes[uid])
    # Records in an iteration never wait for others, or the iteration would seem to be over.
    hasty = {uid for head, body in graph.iterations.items() for uid in (head, *body)}
    exchanges = [
        _exchange(graph, edge, heads, number, hasty=edge.source in hasty)
        for number, edge in _numbered(graph.edges)
        if heads[edge.target] == edge.target
    ]
    return JobGraph(
        {str(head): _vertex(graph, head, nodes, exchanges) for head, nodes in members.items()}, graph.batch
    )


def _chained(graph: StreamGraph, node: StreamNode, depth: int) -> bool:
    edges = graph.inputs(node.uid)
    # Only the step that emits a side output can identify it, so the side output never leaves that step's chain.
    return node.kind.role is Role.SIDE_OUTPUT or (
        bool(edges) and depth <= _DEEPEST and not obstacles(graph, edges[0])
    )


def _numbered(edges: Iterable[StreamEdge]) -> Iterator[tuple[int, StreamEdge]]:
    seen: Counter[tuple[OperatorUid, OperatorUid]] = Counter()
    for edge in edges:
        yield seen[edge.source, edge.target], edge
        seen[edge.source, edge.target] += 1


def _share(index: int, sources: int, targets: int) -> range:
    """The targets of a source: an equal share of them, or the one that it shares with other sources."""
    first = index * targets // sources
    return range(first, first + 1) if sources >= targets else range(first, (index + 1) * targets // sources)


def _exchange(
    graph: StreamGraph, edge: StreamEdge, heads: dict[OperatorUid, OperatorUid], number: int, *, hasty: bool
) -> JobEdge:
    source, target = graph.nodes[edge.source], graph.nodes[edge.target]
    # A target that reads all input before it starts needs no short buffer timeout.
    waits_ms = NEVER_MS if graph.batch else 0 if hasty else source.buffer_timeout_ms
    return JobEdge(
        source=str(heads[edge.source]),
        node=edge.source,
        target=str(edge.target),
        partition=edge.partition,
        value_type=source.output_type,
        source_parallelism=source.parallelism,
        target_parallelism=target.parallelism,
        target_max_parallelism=target.max_parallelism,
        side=edge.side,
        number=number,
        buffer_timeout_ms=waits_ms,
        feedback=edge.feedback,
        blocking=graph.batch,
    )


def _vertex(
    graph: StreamGraph, head: OperatorUid, nodes: list[StreamNode], exchanges: list[JobEdge]
) -> JobVertex:
    inside = {node.uid for node in nodes}
    rekeyed = {
        edge.target: edge.partition
        for edge in graph.edges
        if edge.target in inside - {head}
        and isinstance(edge.partition, KeyedForward)
        and graph.nodes[edge.target].kind.role is Role.OPERATOR
    }
    return JobVertex(
        id=str(head),
        name=" -> ".join(node.title for node in nodes if node.kind.role is not Role.SIDE_OUTPUT),
        nodes={node.uid: node for node in nodes},
        follows={
            node.uid: tuple(
                e.target for e in graph.outputs(node.uid) if e.target in inside and e.target != head
            )
            for node in nodes
        },
        parallelism=nodes[0].parallelism,
        # Steps with keys have the same number of key groups, which may be more than those of a source in front.
        max_parallelism=next((graph.nodes[uid] for uid in rekeyed), nodes[0]).max_parallelism,
        inputs=tuple(edge for edge in exchanges if edge.target == head),
        outputs=tuple(edge for edge in exchanges if edge.source == head),
        batch=graph.batch,
        rekeyed=rekeyed,
    )
