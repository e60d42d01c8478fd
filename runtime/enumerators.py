"""Split enumerators of a job's sources; they run on the coordinator of every executor."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from tidegate.connectors.spi import (
    Source,
    Split,
    SplitEnumerator,
    SupportsDiscovery,
    SupportsLeftOut,
    SupportsPending,
    SupportsReaderEvents,
)
from tidegate.errors import ConfigError, StateFormatError, UnavailableError
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.runtime.checkpoint.manifest import Manifest
from tidegate.runtime.checkpoint.split_ledger import SplitLedger
from tidegate.runtime.discovery import Discovery, DiscoveryResult, run_discovery
from tidegate.runtime.graph.job_graph import JobGraph, JobVertex
from tidegate.runtime.operators.environment import OperatorReport

__all__ = ["Assign", "Enumerators", "Send", "open_enumerator"]

Assign = Callable[[JobVertex, int, tuple[bytes, ...] | None], None]
"""Sends a reader of a source vertex its splits, or None if there are no more."""


_SHOWN: Final = 3
"""At most this many skipped splits are named."""

Send = Callable[[JobVertex, int, bytes], None]
"""Sends a reader of a source vertex a source event."""


class _Context:
    def __init__(self, vertex: JobVertex, assign: Assign, send: Send | None, owner: str) -> None:
        self._vertex = vertex
        self.owner = f"{owner} {vertex.head.uid}" if owner else ""
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
                f"source {self._vertex.head.uid!r}: its enumerator sends a source event, but on Spark a reader lives for one "
                "epoch only; set continuous = True in the source, and run it embedded"
            )
        self._send(self._vertex, reader, event)


class Enumerators:
    """Opens and restores one enumerator per source; splits of readers that restart are added back to it.

    With `tell`, results of split discovery are passed to it; without, discovery runs synchronously. `looked` gets the
    error of each discovery, or None. `send` is for readers that stay open. `ended`, for batch jobs, holds the final
    states of the sources that an earlier attempt has finished; states of sources that finish now are added. `owner`
    identifies the pipeline.
    """

    def __init__(
        self,
        graph: JobGraph,
        manifest: Manifest | None,
        assign: Assign,
        looked: Callable[[OperatorUid, str | None], None],
        tell: Callable[[DiscoveryResult], None] | None = None,
        send: Send | None = None,
        ended: dict[OperatorUid, bytes] | None = None,
        owner: str = "",
    ) -> None:
        self._owner = owner
        self._ended = ended
        self._uids: dict[str, OperatorUid] = {}
        self._reading: dict[str, set[Subtask]] = {}
        self._assign = assign
        self._looked = looked
        self._send = send
        self._ledgers: dict[OperatorUid, SplitLedger] = {}
        self._assigned: Counter[tuple[OperatorUid, int]] = Counter()
        self._answered: set[tuple[OperatorUid, int]] = set()
        """Readers that have received a message since they were opened."""
        self._tell: dict[OperatorUid, Callable[[int, tuple[bytes, ...]], None]] = {}
        self._enumerators: dict[OperatorUid, SplitEnumerator[Any]] = {}
        self._attempts: Counter[OperatorUid] = Counter()
        self._look_at: dict[OperatorUid, int] = {}
        self._discovery = Discovery(tell) if tell is not None else None
        for vertex in graph.vertices.values():
            if vertex.is_source:
                self._open(vertex, manifest)

    def reopen(self, vertices: Iterable[JobVertex], manifest: Manifest | None) -> None:
        """Restore the enumerators of these vertices from a checkpoint."""
        for vertex in vertices:
            if vertex.is_source:
                self._enumerators[vertex.head.uid].close()
                self._attempts[vertex.head.uid] += 1
                self._open(vertex, manifest)

    def request(self, uid: OperatorUid, reader: int, received: int | None = None) -> None:
        """A reader asks for splits; if assignments are still in flight to it, it will ask again.

        A reader's first request always gets an answer: until then event time waits for its first splits.
        """
        if received is None or received == self._assigned[uid, reader]:
            self._enumerators[uid].request(reader)
            if received is not None and (uid, reader) not in self._answered:
                self._tell[uid](reader, ())

    def reader_event(self, uid: OperatorUid, reader: int, event: bytes) -> None:
        """Pass a source event of a reader to its enumerator.

        Raises:
            ConfigError: the enumerator does not support source events.
        """
        enumerator = self._enumerators[uid]
        if not isinstance(enumerator, SupportsReaderEvents):
            raise ConfigError(
                f"source {uid!r}: reader {reader} sent a source event; {type(enumerator).__name__} has no method "
                "reader_event; implement it"
            )
        enumerator.reader_event(reader, event)

    def look(self, now_ms: int) -> None:
        """Start the split discoveries that are due.

        Raises:
            TidegateError: discovery is synchronous, and `take` raised it.
        """
        for uid, enumerator in self._enumerators.items():
            if not isinstance(enumerator, SupportsDiscovery) or enumerator.discovery_interval_ms is None:
                continue
            # Each enumerator has run a discovery when it started.
            if self._look_at.setdefault(uid, now_ms + enumerator.discovery_interval_ms) <= now_ms:
                self._look_at[uid] = now_ms + enumerator.discovery_interval_ms
                if self._discovery is None:
                    self.take(run_discovery(uid, enumerator.discover, self._attempts[uid]))
                else:
                    self._discovery.begin(uid, enumerator.discover, self._attempts[uid])

    def take(self, found: DiscoveryResult) -> None:
        """Pass the result of a discovery to its enumerator; after an `UnavailableError` the next interval tries again.

        Raises:
            TidegateError: the job cannot continue with the discovered splits.
        """
        if found.attempt != self._attempts[found.uid]:
            return
        if isinstance(found.error, UnavailableError):
            self._looked(found.uid, str(found.error))
            return
        if found.error is not None:
            raise found.error
        enumerator = self._enumerators[found.uid]
        assert isinstance(enumerator, SupportsDiscovery)
        enumerator.discovered(found.what)
        self._has_looked(found.uid, enumerator)

    def snapshot(self, checkpoint: CheckpointId) -> dict[OperatorUid, bytes]:
        """The state of the enumerators: all splits that are not in the snapshots of readers.

        Raises:
            InternalError: splits are in two places or in none.
        """
        for uid, enumerator in self._enumerators.items():
            self._ledgers[uid].cut(enumerator.pending() if isinstance(enumerator, SupportsPending) else None)
        return {uid: enumerator.snapshot(checkpoint) for uid, enumerator in self._enumerators.items()}

    def drained(self, subtask: Subtask) -> None:
        """A reader has finished; in a batch job the final state of its source is kept."""
        uid, reading = self._uids[subtask.vertex], self._reading[subtask.vertex]
        reading.discard(subtask)
        if self._ended is not None and not reading:
            self._ended[uid] = self._enumerators[uid].snapshot(CheckpointId(0))

    def reported(self, reports: Iterable[OperatorReport]) -> None:
        """All readers have reported their splits of the last snapshot.

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
        """The checkpoint of the last reports is decided."""
        for ledger in self._ledgers.values():
            ledger.decided()

    def close(self) -> None:
        """Close all enumerators."""
        if self._discovery is not None:
            self._discovery.close()
        for enumerator in self._enumerators.values():
            enumerator.close()

    def _open(self, vertex: JobVertex, manifest: Manifest | None) -> None:
        uid = self._uids[vertex.id] = vertex.head.uid
        self._reading[vertex.id] = set(vertex.subtasks)
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
        enumerator = self._enumerators[uid] = open_enumerator(
            vertex, manifest, assign, self._send, (self._ended or {}).get(uid), self._owner
        )
        self._has_looked(uid, enumerator)

    def _has_looked(self, uid: OperatorUid, enumerator: SplitEnumerator[Any]) -> None:
        names = sorted(enumerator.left_out()) if isinstance(enumerator, SupportsLeftOut) else []
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else "")
        self._looked(uid, f"skipped without read permission: {shown}" if names else None)


class _Named(msgspec.Struct, frozen=True):
    id: str


_NAMED = msgspec.msgpack.Decoder(_Named)


def _name(split: bytes) -> str:
    return _NAMED.decode(split).id


def open_enumerator(
    vertex: JobVertex,
    manifest: Manifest | None,
    assign: Assign,
    send: Send | None = None,
    ended: bytes | None = None,
    owner: str = "",
) -> SplitEnumerator[Any]:
    """The enumerator of a source, restored from a checkpoint or from its final state `ended`."""
    source: Source[Any] = vertex.head.payload
    state = manifest.operator(vertex.head.uid) if manifest is not None else None
    enumerator = source.open_enumerator(
        _Context(vertex, assign, send, owner), state.coordinator if state is not None else ended
    )
    try:
        enumerator.start()
        if state is not None:
            enumerator.give_back(_restored(vertex, source, state.splits))
    except BaseException:
        enumerator.close()
        raise
    return enumerator


def _restored(vertex: JobVertex, source: Source[Any], splits: Sequence[bytes]) -> list[Split]:
    try:
        return [msgspec.msgpack.decode(split, type=source.split_type) for split in splits]
    except msgspec.MsgspecError as error:
        raise StateFormatError(
            f"source {vertex.head.uid!r}: cannot decode a split of the checkpoint ({error}); expected a "
            f"{source.split_type.__name__} as {type(source).__name__} writes it; another source had this uid, or another "
            "version wrote it; give the new source a new uid, or run the version that wrote it"
        ) from error
