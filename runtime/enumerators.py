"""The enumerators of a job's sources, on the coordinator of any executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tidegate.connectors.spi import Source, Split, SplitEnumerator, SupportsDiscovery
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.checkpoint.manifest import Manifest
from tidegate.runtime.graph.job_graph import JobGraph, JobVertex

__all__ = ["Assign", "Enumerators", "Look", "open_enumerator"]

Look = Callable[[], Any]
"""Asks an outer system for more splits; may block."""

Assign = Callable[[JobVertex, int, tuple[bytes, ...] | None], None]
"""Tells a reader of a source vertex its splits, or with None that there are no more."""


class _Context:
    def __init__(self, vertex: JobVertex, assign: Assign) -> None:
        self._vertex = vertex
        self._assign = assign

    @property
    def parallelism(self) -> int:
        return self._vertex.parallelism

    def assign(self, reader: int, splits: Sequence[Split]) -> None:
        self._assign(self._vertex, reader, tuple(msgspec.msgpack.encode(split) for split in splits))

    def no_more_splits(self, reader: int) -> None:
        self._assign(self._vertex, reader, None)


class Enumerators:
    """Opens one enumerator per source, restored, with the readers' splits given back."""

    def __init__(self, graph: JobGraph, manifest: Manifest | None, assign: Assign) -> None:
        self._assign = assign
        self._enumerators: dict[OperatorUid, SplitEnumerator[Any]] = {}
        self._look_at: dict[OperatorUid, int] = {}
        for vertex in graph.vertices.values():
            if vertex.is_source:
                self._enumerators[vertex.head.uid] = open_enumerator(vertex, manifest, assign)

    def reopen(self, vertices: Iterable[JobVertex], manifest: Manifest | None) -> None:
        """Start those of these vertices again where a checkpoint ends."""
        for vertex in vertices:
            if vertex.is_source:
                self._enumerators[vertex.head.uid].close()
                self._enumerators[vertex.head.uid] = open_enumerator(vertex, manifest, self._assign)

    def request(self, uid: OperatorUid, reader: int) -> None:
        """A reader has run dry."""
        self._enumerators[uid].request(reader)

    def looks_due(self, now_ms: int) -> dict[OperatorUid, Look]:
        """The looks for more splits that are due; what each brings, or that it failed, is for `found`."""
        due: dict[OperatorUid, Look] = {}
        for uid, enumerator in self._enumerators.items():
            if not isinstance(enumerator, SupportsDiscovery) or enumerator.discovery_interval_ms is None:
                continue
            # Each has looked when it started.
            if self._look_at.setdefault(uid, now_ms + enumerator.discovery_interval_ms) <= now_ms:
                self._look_at[uid] = now_ms + enumerator.discovery_interval_ms
                due[uid] = enumerator.discover
        return due

    def found(self, uid: OperatorUid, what: Any) -> None:
        """A look brought something."""
        enumerator = self._enumerators[uid]
        assert isinstance(enumerator, SupportsDiscovery)
        enumerator.discovered(what)

    def snapshot(self, checkpoint: CheckpointId) -> dict[OperatorUid, bytes]:
        """What the readers' snapshots do not hold."""
        return {uid: enumerator.snapshot(checkpoint) for uid, enumerator in self._enumerators.items()}

    def close(self) -> None:
        """Close all."""
        for enumerator in self._enumerators.values():
            enumerator.close()


def open_enumerator(vertex: JobVertex, manifest: Manifest | None, assign: Assign) -> SplitEnumerator[Any]:
    """The enumerator of a source, started where a checkpoint ends."""
    source: Source[Any] = vertex.head.payload
    state = manifest.operator(vertex.head.uid) if manifest is not None else None
    enumerator = source.open_enumerator(
        _Context(vertex, assign), state.coordinator if state is not None else None
    )
    enumerator.start()
    if state is not None:
        splits = [msgspec.msgpack.decode(split, type=source.split_type) for split in state.splits]
        enumerator.give_back(splits)
    return enumerator
