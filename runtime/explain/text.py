"""The plan of a program as text: chains with their steps, exchanges, state, and slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidegate.ids import OperatorUid
from tidegate.runtime.explain.explained import Explained
from tidegate.runtime.graph.changelogs import changing
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.graph.stream_graph import StreamNode

__all__ = ["counted", "slot_note", "summary", "text"]


def text(program: Explained, states: Mapping[OperatorUid, Sequence[str]] | None = None) -> str:
    """The whole program; `states` are the names of the states of each step, where its functions were opened."""
    parts = [f"{program.name}: {summary(program)}"]
    parts += ["\n".join(_chain(program, vertex)) for vertex in program.job.vertices.values()]
    parts += ["\n".join(_state(program, states or {})), "\n".join(_slots(program))]
    return "\n\n".join(parts) + "\n"


def summary(program: Explained) -> str:
    """The program in numbers."""
    steps = sum(len(program.visible(vertex)) for vertex in program.job.vertices.values())
    sizes = [
        counted(steps, "step"),
        counted(len(program.job.vertices), "chain"),
        counted(len(program.job.subtasks), "subtask"),
        counted(program.job.slots, "slot"),
    ]
    return f"{', '.join(sizes)} on {program.options.target}"


def slot_note(program: Explained) -> str:
    """What the slots mean for speed."""
    match program.options.target:
        case "inline":
            return "all slots are in this process and share one interpreter lock: subtasks take turns in one thread"
        case "embedded" if program.options.task_slots > 1:
            return (
                f"the {program.options.task_slots} slots of a task manager are one process and share one "
                "interpreter lock: their subtasks take turns; taskmanager.numberOfTaskSlots = 1 runs them in parallel"
            )
        case "embedded":
            return "each slot is a process of its own: subtasks in different slots run in parallel"
        case _:
            return "Spark places the subtasks"


def counted(number: int, what: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _chain(program: Explained, vertex: JobVertex) -> Iterator[str]:
    chains = program.chains
    yield f"chain {chains[vertex.id]}: {counted(vertex.parallelism, 'subtask')}, slots {vertex.slot_sharing_group!r}"
    nodes, before = program.visible(vertex), program.before(vertex)
    width = min(40, max(len(node.title) for node in nodes))
    for above, node in zip([None, *nodes], nodes, strict=False):
        follows = before[node.uid]
        branch = above is not None and follows is not None and follows != above.uid
        after = f", after {follows}" if branch else ""
        changes = f", emits [{node.changelog.short}]" if changing(node.changelog) else ""
        yield f"  {node.number:>3}  {node.title:<{width}}  uid {node.uid}{_class_of(node)}{changes}{after}"
    for edge in vertex.outputs:
        target = program.job.vertices[edge.target]
        yield (
            f"    -> {program.strategy(edge)} to chain {chains[edge.target]}, "
            f"{vertex.parallelism} to {target.parallelism} {edge.distribution}{', blocking' * edge.blocking}; "
            f"no chain because {', '.join(program.reasons(edge))}"
        )


def _class_of(node: StreamNode) -> str:
    """The class of a user's function object, which tells steps apart better than what they do."""
    cls = type(node.payload)
    ours = cls.__module__.partition(".")[0] in ("tidegate", "builtins", "functools")
    return "" if ours else f", {cls.__qualname__}"


def _state(program: Explained, states: Mapping[OperatorUid, Sequence[str]]) -> Iterator[str]:
    keyed = [node for vertex in program.job.vertices.values() for node in program.state(vertex)]
    yield f"state: backend {program.options.backend}" if keyed else "state: none per key"
    for node in keyed:
        names = ", ".join(map(repr, states.get(node.uid, ())))
        kept = f"{names} " if names else ""
        yield f"  {node.title}: {kept}per key, in {node.max_parallelism} key groups"


def _slots(program: Explained) -> Iterator[str]:
    yield f"slots: {slot_note(program)}"
    chains = program.chains
    for slot, subtasks in program.shared().items():
        held = ", ".join(f"chain {chains[each.vertex]} subtask {each.index + 1}" for each in subtasks)
        yield f"  {slot}: {held}"
