"""Preflight checks of a start on the real storage; they leave no files there."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from tidegate.backends.spi import CheckpointStorage, Decisions
from tidegate.backends.storage import decisions_of
from tidegate.clock import new_id
from tidegate.connectors.spi import Finding, JobFacts, Sink, Source, SupportsPreflight
from tidegate.errors import TidegateError
from tidegate.runtime.checkpoint.record import read_record
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.job import Program
from tidegate.runtime.options import JobOptions
from tidegate.runtime.preflight.outlook import chosen, outlook
from tidegate.runtime.shipping import pack_vertices
from tidegate.twophase.process import alive

__all__ = ["connectors", "preflight"]

_ENDLESS: Final = 1_000
"""A strategy that allows this many restarts in a row is treated as one without a limit."""


def preflight(program: Program, storage: CheckpointStorage) -> Iterator[Finding]:
    """Look at a program, its storage, its state and its connectors; what a start would fail with is a problem."""
    try:
        graph = program.graph(None)
    except TidegateError as error:
        yield Finding("program", "problem", str(error))
        return
    yield _program(graph)
    yield from _guarded("functions", lambda: _functions(graph, program.options))
    yield from _guarded("storage", lambda: _storage(storage, program))
    yield from _guarded("working directories", lambda: _directories(program.options))
    yield from _guarded("state", lambda: _state(program, storage))
    yield from connectors(program)


def connectors(program: Program) -> Iterator[Finding]:
    """Look at the sources and sinks of a program, and at what they read and write where they can tell.

    Raises:
        ConfigError: the program by itself could not start.
    """
    graph = program.graph(None)
    interval_ms, pauses = program.interval_ms(graph), _pauses(program.options)
    for node in graph.nodes.values():
        facts = JobFacts(program.pipeline, interval_ms, program.options.timeout_ms, pauses, node.uid)
        yield from _guarded(f"{node.kind} {node.uid!r}", partial(_connector, node, facts))


def _guarded(subject: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from look()
    except TidegateError as error:
        yield Finding(subject, "problem", str(error))


def _program(graph: JobGraph) -> Finding:
    sizes = {
        node.uid: (vertex.parallelism, vertex.max_parallelism)
        for vertex in graph.vertices.values()
        for node in vertex.nodes.values()
    }
    largest = max(sizes, key=lambda uid: sizes[uid][0] / sizes[uid][1])
    parallelism, most = sizes[largest]
    return Finding(
        "program", "ok", f"{len(sizes)} steps; {largest!r} has {parallelism} subtasks of at most {most}"
    )


def _functions(graph: JobGraph, options: JobOptions) -> Iterator[Finding]:
    pack_vertices(graph.vertices.values())
    where = "stay in this process" if options.target == "inline" else "can be sent to other processes"
    yield Finding("functions", "ok", where)


def _storage(storage: CheckpointStorage, program: Program) -> Iterator[Finding]:
    place = f"preflight-{new_id(8)}"
    try:
        yield _files(storage, f"{place}/blob")
        yield _decisions(storage, place, program.options.target)
    finally:
        with contextlib.suppress(TidegateError):
            storage.blobs.delete(storage.blobs.list(f"{place}/"))


def _files(storage: CheckpointStorage, name: str) -> Finding:
    blobs, content = storage.blobs, new_id().encode()
    blobs.put(name, content)
    with blobs.open(name) as file:
        if file.read() != content:
            return Finding("storage", "problem", f"{storage.url} returned other bytes than were written")
    if blobs.list(name) != [name]:
        return Finding("storage", "problem", f"{storage.url} does not list what was written")
    blobs.delete([name])
    if blobs.list(name):
        return Finding("storage", "problem", f"{storage.url} still lists what was deleted")
    return Finding("storage", "ok", f"{storage.url} can be written, read, listed and deleted from")


def _decisions(storage: CheckpointStorage, place: str, target: str) -> Finding:
    if storage.decisions is None:
        spark = target not in ("embedded", "inline")
        return Finding(
            "decisions",
            "problem" if spark else "warning",
            f"{storage.url} has no atomic swap, so two starts at the same moment can damage each other's work",
            "use a local directory or S3 as checkpoint storage, or make sure that only one process starts the pipeline",
        )
    if wrong := _undecided(storage.decisions, f"{place}/decision"):
        return Finding("decisions", "problem", f"{storage.url} does not swap atomically: {wrong}")
    return Finding("decisions", "ok", "atomic swap works: one of two writers wins, a late writer fails")


def _undecided(decisions: Decisions, name: str) -> str | None:
    """What is wrong with a storage's atomic swap; None if it is correct."""
    if not decisions.create(name, b"first") or decisions.create(name, b"second"):
        return "a file that exists was created a second time"
    first = decisions.read(name)
    if first is None or first.data != b"first":
        return "a file that was created cannot be read"
    if not decisions.swap(name, first.tag, b"third") or decisions.swap(name, first.tag, b"late"):
        return "a swap with an outdated tag succeeded"
    last = decisions.read(name)
    return None if last is not None and last.data == b"third" else "a file that was swapped cannot be read"


def _directories(options: JobOptions) -> Iterator[Finding]:
    for root in options.local_dirs or (tempfile.gettempdir(),):
        try:
            with tempfile.TemporaryFile(dir=root):
                yield Finding("working directories", "ok", f"{root} can be written")
        except OSError as error:
            yield Finding(
                "working directories",
                "problem",
                f"{root} cannot be written: {error}",
                "create it, or name another one in taskmanager.state.local.root-dirs",
            )


def _state(program: Program, storage: CheckpointStorage) -> Iterator[Finding]:
    record, _ = read_record(decisions_of(storage), program.pipeline)
    if record is not None and record.status == "running" and alive(record.lease) is not False:
        lease = record.lease
        yield Finding(
            "owner",
            "warning",
            f"run {lease.run} of pid {lease.pid} on {lease.host} owns pipeline {program.pipeline!r}",
            "stop it first; a start is refused while it runs",
        )
    ended = record is not None and record.status in ("finished", "canceled")
    anew = program.options.fresh or ended or record is None or not record.retained
    if anew and program.options.savepoint is None:
        yield Finding(
            "state", "ok", f"pipeline {program.pipeline!r} starts without state, with a new lineage"
        )
    else:
        yield _restored(program, storage)


def _restored(program: Program, storage: CheckpointStorage) -> Finding:
    with chosen(storage, program.pipeline, program.options.savepoint) as (manifest, files):
        found = outlook(program, manifest, files)
    if found.obstacles:
        return Finding("state", "problem", "; ".join(found.obstacles), "tidegate plan shows it step by step")
    return Finding("state", "ok", f"checkpoint {manifest.checkpoint} can be restored")


def _pauses(options: JobOptions) -> int | None:
    """The sum of the pauses of all restarts in a row; None if their number is not limited."""
    strategy, total = options.strategy(), 0
    for _ in range(_ENDLESS):
        pause = strategy.failed(total)
        if pause is None:
            return total
        total += pause
    return None


def _connector(node: StreamNode, facts: JobFacts) -> Iterator[Finding]:
    subject, payload = f"{node.kind} {node.uid!r}", node.payload
    if isinstance(payload, Source):
        yield (
            Finding(subject, "ok", "its input can be replayed after a failure")
            if payload.replayable
            else Finding(
                subject,
                "warning",
                "its input cannot be replayed: records read since the last checkpoint are lost in a failure",
            )
        )
    elif isinstance(payload, Sink):
        yield _DELIVERY[payload.delivery](subject)
    if isinstance(payload, SupportsPreflight):
        yield from payload.preflight(facts)


_DELIVERY: Final[dict[str, Callable[[str], Finding]]] = {
    "exactly-once": lambda subject: Finding(subject, "ok", "each record is written exactly once"),
    "at-least-once": lambda subject: Finding(
        subject, "warning", "records since the last checkpoint are written again after a failure"
    ),
    "none": lambda subject: Finding(
        subject, "warning", "records since the last checkpoint may be lost or written again after a failure"
    ),
}
