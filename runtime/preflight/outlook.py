"""Outlook of a start from a snapshot: state that is restored, new, lost or incompatible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from tidegate import registry
from tidegate.backends.spi import CheckpointStorage, SnapshotFiles
from tidegate.backends.storage import StorageFiles
from tidegate.errors import ConfigError, TidegateError, UserCodeError
from tidegate.ids import OperatorUid, PipelineId
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState
from tidegate.runtime.checkpoint.restore import holds_state
from tidegate.runtime.checkpoint.savepoint import open_snapshot
from tidegate.runtime.checkpoint.timeline import Timeline
from tidegate.runtime.graph.job_graph import JobGraph, JobVertex
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.job import Program
from tidegate.runtime.preflight.trial import Tried, stored_lists, stored_states, tried

__all__ = ["OperatorOutlook", "Outlook", "StateOutlook", "Verdict", "chosen", "outlook"]

Verdict = Literal["restored", "new", "unused", "lost", "incompatible", "unknown", "undecided"]
"""`unused` state is kept by an operator that does not declare it; `lost` state has no operator in the program any
more; for `undecided` state the operator it belongs to cannot be determined."""


@dataclass(frozen=True, slots=True)
class StateOutlook:
    """One state of an operator."""

    name: str
    kind: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class OperatorOutlook:
    """One operator; its subtasks before and after are None where it is not."""

    uid: OperatorUid
    name: str
    verdict: Verdict
    before: int | None
    after: int | None
    states: tuple[StateOutlook, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """All operators with state, and what would prevent the start."""

    operators: tuple[OperatorOutlook, ...]
    obstacles: tuple[str, ...] = field(default=())
    """What must be decided or repaired before a start, as messages."""


def outlook(program: Program, manifest: Manifest, files: SnapshotFiles) -> Outlook:
    """Compare a program with a snapshot. Its functions are opened and closed once; nothing else of it runs.

    Raises:
        ConfigError: the program by itself could not start.
        StateCorruptError: a file of the snapshot is missing or damaged.
    """
    matching = program.matching(manifest)
    obstacles: list[str] = []
    if matching.undecided:
        obstacles.append(matching.refusal())
    else:
        manifest = matching.matched()
    left = [operator for operator in matching.left_behind if holds_state(operator)]
    graph, found = _graph(program, manifest)
    obstacles += found
    stored = {operator.uid: operator for operator in manifest.operators if holds_state(operator)}
    unclaimed = program.options.ignore_unclaimed
    rows = [row for vertex in graph.vertices.values() for row in _of_vertex(vertex, stored, files, unclaimed)]
    gone = [operator for uid, operator in stored.items() if uid not in graph.nodes]
    missing = [operator.uid for operator in gone if operator.uid not in matching.undecided]
    if missing and not unclaimed:
        names = ", ".join(map(repr, missing))
        obstacles.append(
            f"the state of {names} has no operator in the program; give an operator that uid, name the operator that gets "
            "the state with --map old=new, or drop the state with --allow-non-restored-state"
        )
    rows += [_lost(operator, files) for operator in gone if operator not in left]
    rows = [_undecided(row, matching.undecided.get(row.uid)) for row in rows]
    rows += [replace(_lost(operator, files), why="--map drops its state") for operator in left]
    obstacles += [_named(row) for row in rows if row.verdict == "incompatible"]
    return Outlook(tuple(rows), tuple(obstacles))


@contextmanager
def chosen(
    storage: CheckpointStorage, pipeline: PipelineId, name: str | None
) -> Iterator[tuple[Manifest, SnapshotFiles]]:
    """A snapshot and its files, by path or by the number of a retained checkpoint; the newest one without a name.

    Raises:
        ConfigError: the snapshot does not exist.
        StateCorruptError: its metadata is damaged.
        StateFormatError: a newer version wrote it.
    """
    if name is not None and not name.isdigit():
        found = open_snapshot(name)
        yield found.manifest, StorageFiles(found.storage.blobs, "")
        return
    with Timeline(storage, pipeline) as timeline:
        if not timeline.record.retained:
            raise ConfigError(
                f"pipeline {pipeline!r} has no checkpoint in {storage.url}; give the path of a savepoint"
            )
        yield timeline.manifest(int(name) if name else None), timeline.files


def _graph(program: Program, manifest: Manifest) -> tuple[JobGraph, list[str]]:
    alone = program.graph(None)
    try:
        return program.graph(manifest), []
    except ConfigError as error:
        return alone, [str(error)]


def _of_vertex(
    vertex: JobVertex, stored: dict[OperatorUid, OperatorState], files: SnapshotFiles, unclaimed: bool
) -> Iterator[OperatorOutlook]:
    backend = registry.load("tidegate.backends", "heap")()
    opened = {node.uid: result for node, result in tried(vertex, stored, files, backend, unclaimed=unclaimed)}
    for node in vertex.nodes.values():
        operator, result = stored.get(node.uid), opened.get(node.uid, Tried(opened=False))
        if operator is not None or result.states or result.error is not None:
            yield _row(node, vertex.parallelism, operator, result, files)


def _row(
    node: StreamNode, after: int, operator: OperatorState | None, result: Tried, files: SnapshotFiles
) -> OperatorOutlook:
    before = operator.parallelism if operator is not None else None
    states = tuple(_states(operator, result, files))
    verdict, why = _verdict(operator, result.error)
    return OperatorOutlook(node.uid, node.name, verdict, before, after, states, why)


def _verdict(operator: OperatorState | None, error: TidegateError | None) -> tuple[Verdict, str]:
    if isinstance(error, UserCodeError):
        return "unknown", f"its function could not be opened: {error}"
    if error is not None:
        return "incompatible", str(error)
    if operator is None:
        return "new", ""
    return "restored", _unnamed(operator)


def _states(operator: OperatorState | None, result: Tried, files: SnapshotFiles) -> Iterator[StateOutlook]:
    known = dict(_known(operator, files)) if operator is not None else {}
    for name, kind in known.items():
        used = name in result.states or kind == "operator"
        unknown = result.error is not None or not (used or result.opened)
        yield StateOutlook(name, kind, "unknown" if unknown else "restored" if used else "unused")
    for name in sorted(result.states - known.keys()):
        yield StateOutlook(name, "", "new")


def _known(operator: OperatorState, files: SnapshotFiles) -> Iterator[tuple[str, str]]:
    for table in stored_states(operator, files):
        yield from ((entry.name, entry.kind) for entry in table)
    for each in stored_lists(operator).values():
        if each.declared is not None:
            yield each.declared, "operator"


def _named(row: OperatorOutlook) -> str:
    named = f"operator {row.uid!r}: "
    return row.why if row.why.startswith(named) else named + row.why


def _undecided(row: OperatorOutlook, why: str | None) -> OperatorOutlook:
    if why is None or row.before is None:
        return row
    states = tuple(replace(state, verdict="undecided") for state in row.states if state.verdict != "new")
    return replace(row, verdict="undecided", states=states, why=why)


def _lost(operator: OperatorState, files: SnapshotFiles) -> OperatorOutlook:
    states = tuple(StateOutlook(name, kind, "lost") for name, kind in dict(_known(operator, files)).items())
    return OperatorOutlook(
        operator.uid, operator.name, "lost", operator.parallelism, None, states, _unnamed(operator)
    )


def _unnamed(operator: OperatorState) -> str:
    """Its state without names: splits and writers."""
    parts = ((operator.splits, "splits of its source"), (operator.writers, "open writers of its sink"))
    return ", ".join(f"{len(held)} {what}" for held, what in parts if held)
