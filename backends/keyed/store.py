"""Keyed state of one operator in one subtask: a write-back cache of rows, timers and the change log.

Between two barriers values live as Python objects. At the barrier, or when it must leave the cache, a changed row is
encoded, logged and written to the materialisation; a snapshot never holds live objects. Called by the subtask's
thread alone; only `PendingSnapshot.finish` runs elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from itertools import compress, islice, repeat
from operator import not_
from typing import Any, Final

from tidegate.backends.keyed.address import (
    EVENT_TIMERS,
    PROCESSING_TIMERS,
    ROWS,
    address,
    after,
    row_addresses,
    split,
    state_of,
    state_prefix,
)
from tidegate.backends.keyed.collection import Shelf
from tidegate.backends.keyed.descriptors import StateDescriptor, ValueStateDescriptor
from tidegate.backends.keyed.journal import Cause, Journal
from tidegate.backends.keyed.kinds import open_expiring, open_state, unknown
from tidegate.backends.keyed.limit import RowLimit
from tidegate.backends.keyed.log import ChangeLog
from tidegate.backends.keyed.map_state import MapState
from tidegate.backends.keyed.migration import conversion, rewritten
from tidegate.backends.keyed.restore import STORE, restore
from tidegate.backends.keyed.row import UNBOUND, Cursor, Row, RowCodec, ValueState, unpack_slots
from tidegate.backends.keyed.snapshot import History, PendingSnapshot
from tidegate.backends.keyed.sweep import NAMESPACED, AllRows, Sweeps
from tidegate.backends.keyed.table import StateEntry, entry_of
from tidegate.backends.keyed.timers import StoredTimers
from tidegate.backends.keyed.ttl import NS_PER_MS, Lifetime
from tidegate.backends.keyed.versions import Versions
from tidegate.backends.spi import (
    Address,
    Backend,
    BackendContext,
    Bounded,
    Cut,
    Entry,
    KeyedHandle,
    Resumable,
    SupportsMemoryLimit,
    SupportsMetrics,
    Timer,
)
from tidegate.checks import shorten
from tidegate.clock import SYSTEM_CLOCK
from tidegate.errors import ConfigError, InternalError, StateFormatError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange, bytes_of_keys, groups_of_bytes, key_bytes, key_from_bytes, key_group

__all__ = ["KeyedStore"]

_SPARE: Final = 1_000
"""As many rows more than necessary leave a full cache at once: enough to be written together, few enough not to
hold up a batch."""

_CHUNK: Final = 1_000


class KeyedStore:
    """Opens the state that `handles` hold of `key_groups` and keeps at most `cache_entries` rows as objects.

    What has a time to live expires by `now_ns`. Bases are written by `uploads`, while checkpoints continue without them;
    without it, as part of the checkpoint that needs a new one.

    Raises:
        StateCorruptError: a file of a handle is missing or damaged.
        StateFormatError: a handle was written by a newer version.
    """

    def __init__(
        self,
        backend: Backend,
        key_groups: KeyGroupRange,
        max_parallelism: int,
        handles: Sequence[KeyedHandle],
        context: BackendContext,
        *,
        cache_entries: int = 100_000,
        now_ns: Callable[[], int] = SYSTEM_CLOCK.now_ns,
        uploads: Executor | None = None,
        incremental: bool = True,
        journaled: bool = False,
    ) -> None:
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        restored = restore(backend, key_groups, handles, context)
        self._materialisation = store = restored.materialisation
        self._table, self._restored = restored.table, restored.table.entries
        memory = store.memory_limit if isinstance(store, SupportsMemoryLimit) else None
        self._limit = RowLimit(cache_entries, memory.rows if memory is not None else None)
        self._history = History(
            key_groups,
            restored.handle,
            context.files,
            uploads,
            ChangeLog(context.directory, memory.log if memory is not None else None),
            fresh=restored.handle is not None and not restored.handle.chunks,
            incremental=incremental,
        )
        self._leaving = context if isinstance(backend, Resumable) else None
        self._journal = Journal() if journaled else None
        self._cause: Cause | None = None
        self._codec = RowCodec()
        self._cursor = Cursor()
        self._inner = Cursor(self._cursor)
        self._rows: dict[Any, Row] = {}
        self._written = bool(handles)
        """Whether anything may stand outside of the cache."""
        everything = AllRows(self._rows, self._materialisation, key_groups, self._codec, self._cursor)
        self._now_ns = now_ns
        self._sweeps = Sweeps(everything, self._log, now_ns)
        self._states: dict[tuple[str, Cursor], Any] = {}
        self._descriptors: dict[str, StateDescriptor] = {}
        self.slots: dict[str, int] = {}
        """Where rows hold the values of the states that were asked for, by name."""
        self.before_settling: Callable[[], None] = _nothing
        """Called before rows are written back or leave the cache: who keeps what `bind_in` answered lets go of it."""
        self.event_timers = self._timers(EVENT_TIMERS)
        self.processing_timers = self._timers(PROCESSING_TIMERS)

    def state(self, descriptor: StateDescriptor, *, namespaced: bool = False) -> Any:
        """The handle of a state, of the class that belongs to the descriptor's; the same one each time.

        With `namespaced` it follows `bind_in` instead of `bind`.

        Raises:
            ConfigError: the operator uses the name for something else, or the state kind is unknown.
            StateFormatError: the restored state of that name was stored with another type.
        """
        given: object = descriptor
        if not isinstance(given, StateDescriptor):
            raise unknown(given)
        known = self._descriptors.setdefault(descriptor.name, descriptor)
        if known != descriptor:
            raise ConfigError(
                f"state {descriptor.name!r} is declared twice; got {descriptor}; expected {known}; use another name"
            )
        cursor = self._inner if namespaced else self._cursor
        at = (descriptor.name, cursor)
        if at not in self._states:
            entry = self._entry(descriptor)
            self.slots[descriptor.name] = entry.slot
            self._states[at] = self._open(descriptor, entry, cursor)
            for row in self._rows.values():
                row.values.extend([None] * (self._codec.width - len(row.values)))
        return self._states[at]

    def value_state(self, descriptor: ValueStateDescriptor, *, namespaced: bool = False) -> ValueState[Any]:
        """`state` of one value."""
        value: ValueState[Any] = self.state(descriptor, namespaced=namespaced)
        return value

    def rename_candidates(self) -> list[tuple[str, str]]:
        """Restored states that were not requested, each with the new states of its kind: one of them may be its new name."""
        known = {entry.name for entry in self._restored}
        new = [each for each in self._descriptors.values() if each.name not in known]
        left = [entry for entry in self._restored if entry.name not in self._descriptors]
        return [(entry.name, each.name) for entry in left for each in new if each.kind == entry.kind]

    def keys(self, name: str) -> Iterator[Any]:
        """The canonical keys for which the state of a name is not empty, of those present at the start.

        Keys bound in the meantime stay cached until the next `end_batch`.
        """
        self.before_settling()
        self._write_back()
        slot = self.slots[name]
        for at, data in self._scanned(ROWS):
            parts, stored = split(at), unpack_slots(data)
            if not parts.namespace and slot < len(stored) and stored[slot] is not None:
                yield key_from_bytes(parts.key)

    def bind(self, key: Any) -> None:
        """Point all handles at the row of a canonical key.

        Raises:
            InternalError: the key belongs to another subtask.
        """
        try:
            self._cursor.row = self._rows[key]
        except KeyError:
            self._fetch([key])
            self._cursor.row = self._rows[key]

    @property
    def cursor(self) -> Cursor:
        """What a loop binds without a call, as `bind` does: `cursor.row = row`, for the rows that `prefetch` gave."""
        return self._cursor

    def unbind(self) -> None:
        """Point the handles at no key: what uses them now is refused."""
        self._cursor.row = UNBOUND

    def bind_in(self, key: Any, namespace: bytes) -> Row:
        """Point the namespaced handles at the row of a canonical key in a namespace; `bind` and this do not interfere.

        Who changes values of the row by itself does so before `before_settling` is called, and after a state did.

        Raises:
            InternalError: the key belongs to another subtask, or the namespace is empty.
        """
        at = (NAMESPACED, key, namespace)
        row = self._rows.get(at)
        if row is None:
            if not namespace:
                # Two rows would share one address, and the last write would win.
                raise InternalError(
                    f"namespace of key {key!r} is empty; got {namespace!r}; expected at least one byte; please "
                    "report it"
                )
            where = self._address(key, namespace)
            (data,) = self._materialisation.get_many([where])
            self._rows[at] = row = Row(key, where, data, self._codec.unpack(data), namespace)
        self._inner.row = row
        return row

    def delete_in(self, key: Any, namespace: bytes) -> None:
        """Forget everything of a key in a namespace; raises as `bind_in` does."""
        self.bind_in(key, namespace)
        row = self._inner.row
        self._inner.row = UNBOUND
        if row.encoded is None:
            self._cursor.changed.pop(row, None)
            self._cursor.crowded.pop(row, None)
            del self._rows[NAMESPACED, key, namespace]
            return
        self._log(self._undeclared(row))
        self._codec.clear(row)
        if not row.changed:
            self._inner.mark(row)

    @property
    def cached(self) -> Callable[[Any], Row | None]:
        """Answers the row of a canonical key if it is in memory, which then stays its row until `end_batch`."""
        return self._rows.get

    @property
    def current_key(self) -> Any:
        """The key that is bound."""
        return self._cursor.row.key

    def prefetch(
        self, keys: Sequence[Any], entries: Mapping[MapState[Any, Any], Sequence[Any]] | None = None
    ) -> list[Row]:
        """The rows of a batch's canonical keys, which stay theirs until `end_batch`; raises as `bind` does.

        Those that are not cached are read all at once. So are the `entries` that the batch will touch: of each map, a
        map key for each of the keys. Reads and writes of them afterwards do not access the backend.

        Raises:
            RecordError: a map key has no canonical form.
        """
        rows = self._prefetched(keys)
        if entries:
            lacking = [each for state, of_rows in entries.items() for each in state.lacking(rows, of_rows)]
            addresses = [content.at(key) for content, key in lacking]
            found = self._materialisation.get_many(addresses)
            for (content, key), data in zip(lacking, found, strict=True):
                content.read(key, data)
        return rows

    def due(
        self,
        timers: StoredTimers,
        until: int,
        limit: int,
        namespace: Callable[[Timer], bytes | None] | None = None,
    ) -> Generator[Timer, None, None]:
        """Remove and return timers as their queue does, each with its key bound; raises as `bind` does.

        The rows of those that come next are read all at once, so are those in the `namespace` of each. Behind the last
        one, and when it is closed, the cache is shrunk to its limit: a caller that may stop earlier closes it, because
        what that raises would be lost otherwise.
        """

        def ahead(coming: Sequence[Timer]) -> None:
            self._rows_of([timer.key for timer in coming])
            if namespace is not None:
                self._prefetch_in(coming, namespace)

        try:
            for timer in timers.due(until, limit, ahead):
                self.bind(timer.key)
                yield timer
        finally:
            self.end_batch()

    def _prefetch_in(self, timers: Sequence[Timer], namespace: Callable[[Timer], bytes | None]) -> None:
        lacking: dict[Any, Address] = {}
        for timer in timers:
            self.bind(timer.key)
            name = namespace(timer)
            at = (NAMESPACED, timer.key, name)
            if name and at not in self._rows:
                lacking[at] = self._address(timer.key, name)
        if lacking:
            found = self._materialisation.get_many(list(lacking.values()))
            for (at, where), data in zip(lacking.items(), found, strict=True):
                self._rows[at] = Row(at[1], where, data, self._codec.unpack(data), at[2])

    def _prefetched(self, keys: Sequence[Any]) -> list[Row]:
        self._sweeps.records(len(keys))
        return self._rows_of(keys)

    def _rows_of(self, keys: Sequence[Any]) -> list[Row]:
        rows = list(map(self._rows.get, keys))
        if all(rows):
            return rows  # type: ignore[return-value] # none is missing
        fetched = self._fetch(list(dict.fromkeys(compress(keys, map(not_, rows)))))
        return fetched if len(fetched) == len(keys) else [self._rows[key] for key in keys]

    def end_batch(self, bound: int = 0) -> None:
        """Shrink the cache to its limit; what changed is logged and written before it leaves.

        `bound` is how many records there were at most whose rows were not prefetched.
        """
        if bound:
            self._sweeps.records(bound)
        if self._cursor.crowded:
            self.before_settling()
            crowded = list(self._cursor.crowded)
            self._cursor.crowded.clear()
            self._write_back(crowded)
        surplus = len(self._rows) - self._limit.rows
        if surplus > 0:
            self.before_settling()
            oldest = list(islice(self._rows, surplus + min(self._limit.rows // 4, _SPARE)))
            leaving = list(map(self._rows.pop, oldest))
            self._write_back([row for row in leaving if row.changed])
            self._cursor.row = self._inner.row = UNBOUND

    @contextmanager
    def last_of_key(self) -> Iterator[None]:
        """Fire the timers of the only key; timers registered by them are ignored; then all state is dropped.

        For input that is sorted by key: the state of a key is not used by the next one.
        """
        self.before_settling()
        timers = (self.event_timers, self.processing_timers)
        for queue in timers:
            queue.closed = True
        try:
            yield
        finally:
            for queue in timers:
                queue.closed = False
        self._rows.clear()
        self._cursor.changed.clear()
        self._cursor.crowded.clear()
        self._cursor.row = self._inner.row = UNBOUND
        if self._written:
            self._log({at: None for at, _ in self._materialisation.scan(b"", b"\xff")})
            self._written = False

    def note(self, cause: Cause | None) -> None:
        """Write what changed since the last call into the journal, as made by `cause`; for a store that has one.

        As at a barrier, live mutable values give way to their bytes.

        Raises:
            RecordError: a value was changed in place into something that cannot be encoded.
        """
        self.before_settling()
        self._cause = cause
        self._write_everything()
        self._cause = None

    def snapshot(self, checkpoint: CheckpointId, confirmed: CheckpointId | None) -> PendingSnapshot:
        """Freeze the state at a barrier; `finish` of the result writes it, in any thread.

        `confirmed` is the newest decided checkpoint, whose files stay until this one ends; None if there is none
        to build on, and the snapshot refers to nothing earlier then. Quick: the time depends on what changed.

        Raises:
            RecordError: a value was changed in place into something that cannot be encoded.
        """
        self._history.confirm(confirmed)
        self.before_settling()
        self._sweeps.barrier()
        self._write_everything()
        pending = self._history.take(
            checkpoint,
            confirmed,
            self._table.entries,
            self._cut,
            self._sweeps.leftovers,
        )
        pending.refusal = pending.refusal or self._too_large()
        if self._journal is not None:
            pending.journal = self._journal.take(checkpoint, confirmed, self._history.log_limit)
        return pending

    @property
    def unconfirmed_bytes(self) -> int:
        """The bytes of changes that are kept because no decided checkpoint is known to hold them."""
        return self._history.kept_bytes + (self._journal.kept_bytes if self._journal is not None else 0)

    @property
    def metrics(self) -> Mapping[str, Callable[[], int | float]]:
        """Gauges of the backend's enabled metrics."""
        opened = self._materialisation
        return opened.metrics() if isinstance(opened, SupportsMetrics) else {}

    def close(self) -> None:
        """Release local resources; state after the last decided checkpoint is lost.

        Where others go on from what is left, it is kept for them if it is what the last snapshot holds.
        """
        self._history.close()
        self._materialisation.close()
        newest, place = self._history.newest, self._leaving
        if place is None or place.versions is None or newest is None or newest.handle is None:
            return
        Versions(place.versions).keep(newest.handle, newest.table, place.directory / STORE)

    def _cut(self, checkpoint: CheckpointId) -> Cut:
        self._sweeps.rewriting()
        self._write_back()
        return self._materialisation.cut(checkpoint)

    def _too_large(self) -> StateFormatError | None:
        excess = self._materialisation.excess() if isinstance(self._materialisation, Bounded) else None
        if excess is None:
            return None
        return StateFormatError(
            f"state {self._table.name_of(excess.state)} is too large for its backend; got {excess.size} bytes; "
            f"expected at most {excess.limit}; {excess.remedy}"
        )

    def _fetch(self, missing: Sequence[Any]) -> list[Row]:
        """Read the rows of some keys, each once, that are not cached."""
        data = bytes_of_keys(missing)
        addresses = row_addresses(self._groups_of(data), data)
        found = self._materialisation.get_many(addresses)
        self._limit.saw(found)
        values = self._codec.unpack_each(found)
        rows = list(map(Row, missing, addresses, found, values))
        self._rows.update(zip(missing, rows, strict=True))
        return rows

    def _entry(self, descriptor: StateDescriptor) -> StateEntry:
        stored = self._table.find(descriptor.name)
        if stored is not None and stored.fingerprint != entry_of(descriptor).fingerprint:
            convert = conversion(stored.fingerprint, descriptor, self._now_ns() // NS_PER_MS)
            self.before_settling()
            self._write_back(list(self._cursor.changed))
            entries = rewritten(stored, convert, self._scanned)
            while chunk := dict(islice(entries, _CHUNK)):
                self._log(chunk)
            self._table.convert(descriptor)
            at = slice(stored.slot, stored.slot + 1)
            for row in self._rows.values():
                (row.encoded,) = self._materialisation.get_many([row.address])
                row.values[at] = self._codec.unpack(row.encoded)[at]
        return self._table.add(descriptor)

    def _open(self, descriptor: StateDescriptor, entry: StateEntry, cursor: Cursor) -> Any:
        config = descriptor.ttl_config
        if config is None:
            return open_state(descriptor, entry, cursor, self._materialisation, self._codec)
        life = Lifetime(config, self._now_ns)
        state, expiring = open_expiring(descriptor, entry, cursor, self._materialisation, self._codec, life)
        self._sweeps.add(config, expiring, life, restored=self._written)
        return state

    def _write_everything(self) -> None:
        self._write_back()
        self._log(self.event_timers.take_changes())
        self._log(self.processing_timers.take_changes())

    def _write_back(self, some: Sequence[Row] | None = None) -> None:
        """Write some rows, or all that changed."""
        changed, entries = self._cursor.changed, list[Entry]()
        rows = list(changed) if some is None else some
        if not rows:
            return
        settled = self._codec.settle(rows, entries)
        if some is None:
            changed.clear()
        else:
            deque(map(changed.pop, some, repeat(None)), maxlen=0)
        written = dict(entries)
        for row, data in zip(rows, settled, strict=True):
            row.changed = False
            if data != row.encoded:
                row.encoded = written[row.address] = data
            if data is None and row.namespace is not None:
                # Namespaces come and go: an empty row that stays would be one too many for each that ever was.
                self._rows.pop((NAMESPACED, row.key, row.namespace), None)
                self._inner.row = UNBOUND
        self._limit.saw(settled, entries)
        self._log(written)

    def _undeclared(self, row: Row) -> dict[Address, bytes | None]:
        """Removes the entries of collections that the program has not requested since the restore."""
        shelves = [
            Shelf(self._materialisation, entry.state, row.address)
            for entry in self._table.entries
            if entry.state != ROWS and not self._codec.collects(entry.slot)
        ]
        return {shelf.at(subkey): None for shelf in shelves for subkey, _ in shelf.scan()}

    def _log(self, written: dict[Address, bytes | None]) -> None:
        if written:
            self._written = True
            try:
                self._materialisation.apply(written.items())
            except StateFormatError as error:
                raise self._refused(written, error) from error
            self._history.append(written)
            if self._journal is not None:
                self._journal.append(written, self._cause)

    def _refused(self, written: dict[Address, bytes | None], error: StateFormatError) -> StateFormatError:
        """The error for the largest written entry, which exceeds the limit."""
        at = max(written, key=lambda at: len(at) + len(written[at] or b""))
        key, state = shorten(key_from_bytes(split(at).key)), self._table.name_of(state_of(at))
        return StateFormatError(f"state {state} of key {key}: {error}")

    def _address(self, key: Any, namespace: bytes = b"") -> Address:
        data = key_bytes(key)
        return address(self._group_of(data), ROWS, data, namespace)

    def _groups_of(self, keys: Sequence[bytes]) -> list[int]:
        groups = groups_of_bytes(keys, self._max_parallelism)
        if groups and not self._key_groups.first <= min(groups) <= max(groups) < self._key_groups.last:
            for key in keys:
                self._group_of(key)  # refuses the one that is not here
        return groups

    def _group_of(self, key: bytes) -> int:
        group = key_group(key, self._max_parallelism)
        if group not in self._key_groups:
            raise InternalError(
                f"key group {group} is not assigned to this subtask; expected groups {self._key_groups.first} to "
                f"{self._key_groups.last - 1}; please report it"
            )
        return group

    def _timers(self, state: int) -> StoredTimers:
        groups = range(self._key_groups.first, self._key_groups.last) if self._written else ()
        scan = self._materialisation.scan
        at_once = not isinstance(self._materialisation, SupportsMemoryLimit)
        # What a journal is to hold of timers is taken with its cause.
        write = self._log if self._journal is None else None
        return StoredTimers(state, self._groups_of, groups, scan, at_once=at_once, write=write)

    def _scanned(self, state: int) -> Iterator[tuple[Address, bytes]]:
        for group in range(self._key_groups.first, self._key_groups.last):
            prefix = state_prefix(group, state)
            yield from self._materialisation.scan(prefix, after(prefix))


def _nothing() -> None:
    """Nobody keeps rows."""
