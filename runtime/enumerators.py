"""The enumerators of a job's sources, on the coordinator of any executor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tidegate.connectors.spi import Source, Split, SplitEnumerator, SupportsDiscovery
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.checkpoint.manifest import Manifest
from tidegate.runtime.discovery import Discovery, Found
from tidegate.runtime.graph.job_graph import JobGraph, JobVertex

__all__ = ["Assign", "Enumerators", "open_enumerator"]

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
    """Opens one enumerator per source, restored, with the readers' splits given back.

    Whoever gives `tell` hears there of what looks for more splits bring; else they are done at once.
    """

    def __init__(
        self,
        graph: JobGraph,
        manifest: Manifest | None,
        assign: Assign,
        tell: Callable[[Found], None] | None = None,
    ) -> None:
        self._assign = assign
        self._enumerators: dict[OperatorUid, SplitEnumerator[Any]] = {}
        self._attempts: Counter[OperatorUid] = Counter()
        self._look_at: dict[OperatorUid, int] = {}
        self._discovery = Discovery(tell) if tell is not None else None
        for vertex in graph.vertices.values():
            if vertex.is_source:
                self._enumerators[vertex.head.uid] = open_enumerator(vertex, manifest, assign)

    def reopen(self, vertices: Iterable[JobVertex], manifest: Manifest | None) -> None:
        """Start those of these vertices again where a checkpoint ends."""
        for vertex in vertices:
            if vertex.is_source:
                self._enumerators[vertex.head.uid].close()
                self._attempts[vertex.head.uid] += 1
                self._enumerators[vertex.head.uid] = open_enumerator(vertex, manifest, self._assign)

    def request(self, uid: OperatorUid, reader: int) -> None:
        """A reader has run dry."""
        self._enumerators[uid].request(reader)

    def look(self, now_ms: int) -> None:
        """Begin the looks for more splits that are due.

        Raises:
            UnavailableError: there is nobody to tell later, and a system did not answer.
        """
        for uid, enumerator in self._enumerators.items():
            if not isinstance(enumerator, SupportsDiscovery) or enumerator.discovery_interval_ms is None:
                continue
            # Each has looked when it started.
            if self._look_at.setdefault(uid, now_ms + enumerator.discovery_interval_ms) <= now_ms:
                self._look_at[uid] = now_ms + enumerator.discovery_interval_ms
                if self._discovery is None:
                    self.take(Found(uid, enumerator.discover(), attempt=self._attempts[uid]))
                else:
                    self._discovery.begin(uid, enumerator.discover, self._attempts[uid])

    def take(self, found: Found) -> None:
        """Give an enumerator what its look brought.

        Raises:
            TidegateError: there is no going on with what it found.
        """
        if found.attempt != self._attempts[found.uid]:
            return
        if found.error is not None:
            raise found.error
        enumerator = self._enumerators[found.uid]
        assert isinstance(enumerator, SupportsDiscovery)
        enumerator.discovered(found.what)

    def snapshot(self, checkpoint: CheckpointId) -> dict[OperatorUid, bytes]:
        """What the readers' snapshots do not hold."""
        return {uid: enumerator.snapshot(checkpoint) for uid, enumerator in self._enumerators.items()}

    def close(self) -> None:
        """Close all."""
        if self._discovery is not None:
            self._discovery.close()
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
