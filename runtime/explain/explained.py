"""A program resolved as if it were started: its steps, chains and slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.ids import OperatorUid, Subtask
from tidegate.runtime.component_settings import apply_settings
from tidegate.runtime.graph.chaining import obstacles
from tidegate.runtime.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from tidegate.runtime.graph.plan import real_inputs, ship_strategy
from tidegate.runtime.graph.stream_graph import StreamGraph, StreamNode, build_stream_graph
from tidegate.runtime.launch import Launch, default_parallelism, job_name
from tidegate.runtime.operators.operator import Role
from tidegate.runtime.options import JobOptions
from tidegate.runtime.schedule.slots import Slot, allocate, cluster_size

__all__ = ["Explained", "explained"]


@dataclass(frozen=True, slots=True)
class Explained:
    """A resolved program: graphs, chains, slots, options."""

    name: str
    steps: StreamGraph
    job: JobGraph
    options: JobOptions
    slots: Mapping[Subtask, Slot]
    """Empty if Spark places the subtasks."""

    @property
    def chains(self) -> dict[str, int]:
        """The numbers of the chains by vertex, from 1."""
        return {vertex: number for number, vertex in enumerate(self.job.vertices, 1)}

    def shared(self) -> dict[Slot, list[Subtask]]:
        """The subtasks of each slot."""
        slots: dict[Slot, list[Subtask]] = {}
        for subtask, slot in self.slots.items():
            slots.setdefault(slot, []).append(subtask)
        return dict(sorted(slots.items()))

    def visible(self, vertex: JobVertex) -> list[StreamNode]:
        """The steps of a chain that people know."""
        return [node for node in vertex.nodes.values() if node.kind.role is not Role.SIDE_OUTPUT]

    def before(self, vertex: JobVertex) -> dict[OperatorUid, OperatorUid | None]:
        """For each visible step of a chain the one it follows there."""
        found: dict[OperatorUid, OperatorUid | None] = {}
        for node in self.visible(vertex):
            sources = [source.uid for source, _ in real_inputs(self.steps, node)]
            found[node.uid] = sources[0] if found and sources else None
        return found

    def state(self, vertex: JobVertex) -> list[StreamNode]:
        """The steps of a chain that can keep state per key."""
        return [vertex.nodes[uid] for uid in vertex.keyed if vertex.nodes[uid].kind.role is not Role.SINK]

    def strategy(self, edge: JobEdge) -> str:
        """How an exchange partitions records."""
        return ship_strategy(edge.partition)

    def reasons(self, edge: JobEdge) -> list[str]:
        """Why two steps are not chained."""
        target = OperatorUid(edge.target)
        broken = [
            why
            for each in self.steps.inputs(target)
            if each.source == edge.node
            for why in obstacles(self.steps, each)
        ]
        return list(dict.fromkeys(broken)) or ["the generated code would be nested too deeply"]


def explained(launch: Launch) -> Explained:
    """Resolve a program.

    Raises:
        ConfigError: it could not be started.
    """
    options = launch.options
    apply_settings(launch.steps, options)
    steps = build_stream_graph(
        launch.steps,
        parallelism=default_parallelism(options),
        max_parallelism=options.max_parallelism,
        chaining=options.operator_chaining,
        mode=options.mode,
    )
    job = build_job_graph(steps)
    return Explained(job_name(launch), steps, job, options, _slots(job, options))


def _slots(job: JobGraph, options: JobOptions) -> Mapping[Subtask, Slot]:
    match options.target:
        case "inline":
            return allocate(job, 1, job.slots)
        case "embedded":
            return allocate(job, *cluster_size(job, options))
        case _:
            return {}
