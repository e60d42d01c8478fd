"""The enumerators of a job's sources, on the coordinator of any executor."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from tidegate.connectors.spi import (
    Source,
    Split,
    SplitEnumerator,
    SupportsDiscovery,
    SupportsPending,
    SupportsReaderEvents,
)
from tidegate.errors import ConfigError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.checkpoint.manifest import Manifest
from tidegate.runtime.checkpoint.split_ledger import SplitLedger
from tidegate.runtime.discovery import Discovery, Found
from tidegate.runtime.graph.job_graph import JobGraph, JobVertex
from tidegate.runtime.operators.environment import OperatorReport

__all__ = ["Assign", "Enumerators", "Send", "open_enumerator"]

Assign = Callable[[JobVertex, int, tuple[bytes, ...] | None], None]
"""Tells a reader of a source vertex its splits, or with None that there are no more."""


Send = Callable[[JobVertex, int, bytes], None]
"""Tells a reader of a source vertex an event of the source's own."""


class _Context:
    def __init__(self, vertex: JobVertex, assign: Assign, send: Send | None) -> None:
        self._vertex = vertex
        self._assign = assign
        self._send = send

    @property
    def parallelism(self) -> int:
        return self._vertex.parallelism

    def assign(self, reader: int, splits: Sequence[Split]) -> None:
        self._assign(self._vertex, reader, tuple(msgspec.msgpack.encode(split) for split in splits))

    def no_more_splits(self, reader: int) -> None:
        self._assign(self._vertex, reader, None)

    def send_event(self, reader: int, event: bytes) -> None:
        if self._send is None:
            raise ConfigError(
                f"source {self._vertex.head.uid!r}: its enumerator sends an event, and readers live no longer than an "
                "epoch here; set continuous = True in the source, and run it embedded"
            )
        self._send(self._vertex, reader, event)


class Enumerators:
    """Opens one enumerator per source, restored, with the readers' splits given back.

    Whoever gives `tell` hears there of what looks for more splits bring; else they are done at once. `send` is for
    readers that stay open.
    """

    def __init__(
        self,
        graph: JobGraph,
        manifest: Manifest | None,
        assign: Assign,
        tell: Callable[[Found], None] | None = None,
        send: Send | None = None,
    ) -> None:
        self._assign = assign
        self._send = send
        self._ledgers: dict[OperatorUid, SplitLedger] = {}
        self._assigned: Counter[tuple[OperatorUid, int]] = Counter()
        self._answered: set[tuple[OperatorUid, int]] = set()
        """Readers that have been told something since they opened."""
        self._tell: dict[OperatorUid, Callable[[int, tuple[bytes, ...]], None]] = {}
        self._enumerators: dict[OperatorUid, SplitEnumerator[Any]] = {}
        self._attempts: Counter[OperatorUid] = Counter()
        self._look_at: dict[OperatorUid, int] = {}
        self._discovery = Discovery(tell) if tell is not None else None
        for vertex in graph.vertices.values():
            if vertex.is_source:
                self._open(vertex, manifest)

    def reopen(self, vertices: Iterable[JobVertex], manifest: Manifest | None) -> None:
        """Start those of these vertices again where a checkpoint ends."""
        for vertex in vertices:
            if vertex.is_source:
                self._enumerators[vertex.head.uid].close()
                self._attempts[vertex.head.uid] += 1
                self._open(vertex, manifest)

    def request(self, uid: OperatorUid, reader: int, received: int | None = None) -> None:
        """A reader has run dry; one that has received fewer assignments than it was sent will ask again.

        Who asks for the first time always hears something: until then event time waits for what may be on its way.
        """
        if received is None or received == self._assigned[uid, reader]:
            self._enumerators[uid].request(reader)
            if received is not None and (uid, reader) not in self._answered:
                self._tell[uid](reader, ())

    def reader_event(self, uid: OperatorUid, reader: int, event: bytes) -> None:
        """A reader tells something of the source's own.

        Raises:
            ConfigError: its enumerator takes no events.
        """
        enumerator = self._enumerators[uid]
        if not isinstance(enumerator, SupportsReaderEvents):
            raise ConfigError(
                f"source {uid!r}: reader {reader} sent an event; {type(enumerator).__name__} takes none; give it a "
                "method reader_event"
            )
        enumerator.reader_event(reader, event)

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
        """What the readers' snapshots do not hold.

        Raises:
            InternalError: splits are in two places or in none.
        """
        for uid, enumerator in self._enumerators.items():
            self._ledgers[uid].cut(enumerator.pending() if isinstance(enumerator, SupportsPending) else None)
        return {uid: enumerator.snapshot(checkpoint) for uid, enumerator in self._enumerators.items()}

    def reported(self, reports: Iterable[OperatorReport]) -> None:
        """All readers have told their splits as of the last snapshot.

        Raises:
            InternalError: splits are in two places or in none.
        """
        told: dict[OperatorUid, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for report in reports:
            if report.uid in self._ledgers:
                told[report.uid][report.subtask] += map(_name, report.splits)
        for uid, ledger in self._ledgers.items():
            ledger.report(told[uid])

    def decided(self) -> None:
        """The checkpoint of the last reports counts."""
        for ledger in self._ledgers.values():
            ledger.decided()

    def close(self) -> None:
        """Close all."""
        if self._discovery is not None:
            self._discovery.close()
        for enumerator in self._enumerators.values():
            enumerator.close()

    def _open(self, vertex: JobVertex, manifest: Manifest | None) -> None:
        uid = vertex.head.uid
        ledger = self._ledgers[uid] = SplitLedger(uid)

        def assign(vertex: JobVertex, reader: int, splits: tuple[bytes, ...] | None) -> None:
            self._answered.add((uid, reader))
            if splits is not None:
                ledger.assign(reader, map(_name, splits))
                self._assigned[uid, reader] += 1
            self._assign(vertex, reader, splits)

        for reader in range(vertex.parallelism):
            self._assigned[uid, reader] = 0
            self._answered.discard((uid, reader))
        self._tell[uid] = partial(assign, vertex)
        self._enumerators[uid] = open_enumerator(vertex, manifest, assign, self._send)


class _Named(msgspec.Struct, frozen=True):
    id: str


_NAMED = msgspec.msgpack.Decoder(_Named)


def _name(split: bytes) -> str:
    return _NAMED.decode(split).id


def open_enumerator(
    vertex: JobVertex, manifest: Manifest | None, assign: Assign, send: Send | None = None
) -> SplitEnumerator[Any]:
    """The enumerator of a source, started where a checkpoint ends."""
    source: Source[Any] = vertex.head.payload
    state = manifest.operator(vertex.head.uid) if manifest is not None else None
    enumerator = source.open_enumerator(
        _Context(vertex, assign, send), state.coordinator if state is not None else None
    )
    enumerator.start()
    if state is not None:
        splits = [msgspec.msgpack.decode(split, type=source.split_type) for split in state.splits]
        enumerator.give_back(splits)
    return enumerator
