"""Restore of keyed state from handles: the base, then its segments in order, limited to the key-group range.

One handle of this backend is opened as it is and can be built on. Several handles (after rescaling), or one that
another backend wrote, are read entry by entry; where their state tables number the slots differently, rows are
rewritten on the way.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from tidegate.backends.keyed.address import COLLECTIONS, ROWS, group_of, split, with_state
from tidegate.backends.keyed.row import pack_slots, unpack_slots
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.keyed.table import StateTable
from tidegate.backends.keyed.versions import Versions
from tidegate.backends.spi import (
    Address,
    Backend,
    BackendContext,
    BaseHandle,
    BaseReader,
    Entry,
    KeyedHandle,
    Materialisation,
    Resumable,
    SnapshotFiles,
)
from tidegate.errors import StateCorruptError, TidegateError
from tidegate.keys import KeyGroupRange
from tidegate.registry import load

__all__ = ["STORE", "Restored", "moved", "read_base", "restore"]

STORE: Final = "store"
"""The directory of a materialisation within that of its state."""

_CHUNK: Final = 10_000


@dataclass(frozen=True, slots=True)
class Restored:
    """An opened materialisation, its state table, and the handle it equals if later checkpoints may build on it."""

    materialisation: Materialisation
    table: StateTable
    handle: KeyedHandle | None


def restore(
    backend: Backend, key_groups: KeyGroupRange, handles: Sequence[KeyedHandle], context: BackendContext
) -> Restored:
    """Open what `handles` hold of `key_groups`.

    Raises:
        StateCorruptError: a file is missing or damaged.
        StateFormatError: a newer version wrote it, or two handles disagree about the type of a state.
    """
    relevant = [h for h in handles if h.chunks and h.key_groups.intersect(key_groups)]
    if len(relevant) == 1 and (resumed := _resume(backend, key_groups, relevant[0], context)) is not None:
        return resumed
    own = [h for h in relevant if h.base is None or h.base.backend == backend.name]
    first = next((h for h in own if h.base is not None), None)
    ordered = sorted(relevant, key=lambda handle: handle is not first)
    base = first.base if first is not None else None
    base_range = first.key_groups.intersect(key_groups) if first is not None else key_groups
    opened = backend.open(base, base_range, _within(context, STORE, context.options))
    table = StateTable()
    try:
        for number, handle in enumerate(ordered):
            _take_over(opened, table, handle, key_groups, context, None if handle is first else number)
    except BaseException:
        opened.close()
        raise
    reusable = len(relevant) == 1 and relevant == own and _covers(relevant[0].key_groups, key_groups)
    if not relevant:
        return Restored(opened, table, KeyedHandle(key_groups, None, ()))
    kept = KeyedHandle(key_groups, relevant[0].base, relevant[0].segments) if reusable else None
    return Restored(opened, table, kept)


def _resume(
    backend: Backend, key_groups: KeyGroupRange, handle: KeyedHandle, context: BackendContext
) -> Restored | None:
    """Continue from the local state of this machine, if it is exactly the requested one."""
    fits = handle.key_groups == key_groups and (handle.base is None or handle.base.backend == backend.name)
    if context.versions is None or not fits or not isinstance(backend, Resumable):
        return None
    version = Versions(context.versions).find(handle)
    if version is None:
        return None
    place = _within(context, STORE, context.options)
    try:
        opened = backend.resume(version.left, handle.base, place)
    except (OSError, TidegateError):  # what is wrong with it does not matter: the storage has it too
        shutil.rmtree(place.directory)
        return None
    return Restored(opened, StateTable(version.table), handle)


def _take_over(
    opened: Materialisation,
    table: StateTable,
    handle: KeyedHandle,
    key_groups: KeyGroupRange,
    context: BackendContext,
    number: int | None,
) -> None:
    """Apply one handle; `number` names the directory to read its base in, None if the base is open already."""
    slots = _moved_slots(table, handle, context.files)
    common = handle.key_groups.intersect(key_groups)
    if handle.base is not None and number is not None:
        entries: Iterable[Entry] = read_base(handle.base, context, number)
        _apply(opened, moved(_restricted(entries, common), slots))
    for chunk in handle.segments:
        _apply(opened, moved(_restricted(read_segment(context.files, chunk).entries, common), slots))


def _moved_slots(table: StateTable, handle: KeyedHandle, files: SnapshotFiles) -> Mapping[int, int]:
    if not handle.segments:
        raise StateCorruptError(
            f"state of key groups {handle.key_groups.first} to {handle.key_groups.last} has a base but no log "
            "segment that describes its states; restore an older checkpoint"
        )
    # Tables only grow, so the newest one describes the base and every earlier segment too.
    slots = table.merge(read_segment(files, handle.segments[-1]).table)
    return {} if all(old == new for old, new in slots.items()) else slots


def read_base(base: BaseHandle, context: BackendContext, number: int) -> Iterator[tuple[Address, bytes]]:
    """The entries of a base of any backend, in a separate directory for each `number`."""
    writer: BaseReader = load("tidegate.backends", base.backend)()
    scratch = _within(context, f"restore-{number}", {})
    try:
        yield from writer.read(base, scratch)
    finally:
        shutil.rmtree(scratch.directory)


def _restricted(entries: Iterable[Entry], key_groups: KeyGroupRange) -> Iterator[Entry]:
    return (entry for entry in entries if group_of(entry[0]) in key_groups)


def moved(entries: Iterator[Entry], slots: Mapping[int, int]) -> Iterator[Entry]:
    """Entries with the slots of another state table."""
    if not slots:
        return entries
    return (_move(at, value, slots) for at, value in entries)


def _move(at: Address, value: bytes | None, slots: Mapping[int, int]) -> Entry:
    state = split(at).state
    if state >= COLLECTIONS:
        return with_state(at, COLLECTIONS + slots[state - COLLECTIONS]), value
    return at, _move_row(value, slots) if value and state == ROWS else value


def _move_row(row: bytes, slots: Mapping[int, int]) -> bytes | None:
    parts = unpack_slots(row)
    moved: list[bytes | None] = [None] * (max(slots.values()) + 1)
    for slot, part in enumerate(parts):
        moved[slots[slot]] = part
    return pack_slots(moved)


def _apply(opened: Materialisation, entries: Iterator[Entry]) -> None:
    while chunk := list(islice(entries, _CHUNK)):
        opened.apply(chunk)


def _covers(outer: KeyGroupRange, inner: KeyGroupRange) -> bool:
    return outer.first <= inner.first and inner.last <= outer.last


def _within(context: BackendContext, name: str, options: Mapping[str, object]) -> BackendContext:
    directory = context.directory / name
    directory.mkdir()
    return replace(context, directory=directory, options=options)
