"""Integrity check of checkpoints: referenced files exist, are undamaged and consistent.

Example:
    >>> from tidegate.backends.spi import StoredChunk
    >>> from tidegate.backends.storage import MemoryStorage, StorageFiles
    >>> from tidegate.keys import KeyGroupRange
    >>> lost = KeyedHandle(KeyGroupRange(0, 8), None, (StoredChunk("run/lost", 5, 0),))
    >>> [name for name, why in damage(lost, StorageFiles(MemoryStorage().blobs, "run"))]
    ['run/lost']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import groupby
from typing import TypeAlias

import msgspec

from tidegate.backends.keyed.address import (
    COLLECTIONS,
    ROWS,
    Parts,
    group_of,
    split,
)
from tidegate.backends.keyed.list_state import unpack_head
from tidegate.backends.keyed.row import unpack_slots
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.keyed.table import MAPS, StateEntry
from tidegate.backends.spi import Address, BackendContext, KeyedHandle, SnapshotFiles, StoredChunk
from tidegate.backends.timeline.content import entries, owner_of, table_of
from tidegate.backends.timeline.values import key_of
from tidegate.errors import StateCorruptError, StateFormatError
from tidegate.keys import key_group

__all__ = ["conflicts", "damage", "defects"]

_Place: TypeAlias = tuple[int, bytes, bytes]
"""State, key and namespace of a list or map."""


def damage(handle: KeyedHandle, files: SnapshotFiles) -> Iterator[tuple[str, str]]:
    """The names of files that are missing or damaged, each with what is wrong."""
    for chunk in handle.chunks:
        name = chunk.name if isinstance(chunk, StoredChunk) else "in the metadata"
        try:
            if chunk in handle.segments or chunk == handle.journal:
                read_segment(files, chunk)
            else:
                files.fetch(chunk)
        except (StateCorruptError, StateFormatError) as error:
            yield name, str(error)
    if handle.base is not None and not handle.segments:
        yield "in the metadata", "the base has no log segment that describes its states"


def defects(handle: KeyedHandle, max_parallelism: int, context: BackendContext, number: int) -> Iterator[str]:
    """Inconsistencies within the state; its files are known to be undamaged.

    Every entry is checked: whether addresses ascend and belong to their key groups, rows have known states, lists
    have all their chunks and maps their entries. `number` separates the handle from others read in the same context.
    """
    table = {entry.slot: entry for entry in table_of(handle, context.files)}
    found = _ascending(entries(handle, context, number))
    try:
        for _, members in groupby(found, key=lambda entry: group_of(entry[0])):
            yield from _in_group(members, table, max_parallelism)
    except StateCorruptError as error:
        yield str(error)


def conflicts(
    earlier: KeyedHandle, later: KeyedHandle, context: BackendContext, number: int
) -> Iterator[str]:
    """Differences between a new base and the base and segments before it; both handles are undamaged.

    A base that was cut with its checkpoint cannot be compared: no segments lead to it. Any other base is followed by
    segments that lead from the earlier state to the same state.
    """
    new = later.base is not None and later.base != earlier.base and len(later.segments) > 1
    if not new or later.key_groups != earlier.key_groups:
        return
    expected = msgspec.structs.replace(earlier, segments=(*earlier.segments, *later.segments))
    both = (
        _sided(entries(handle, context, 2 * number + side), side)
        for side, handle in enumerate((expected, later))
    )
    for at, versions in groupby(merge(*both), key=lambda found: found[0]):
        held = [data for _, _, data in versions]
        if len(held) == 1 or held[0] != held[1]:
            yield f"state of key {key_of(owner_of(split(at)))!r} differs between a base and the log before it"


def _sided(found: Iterator[tuple[Address, bytes]], side: int) -> Iterator[tuple[Address, int, bytes]]:
    return ((at, side, data) for at, data in found)


def _ascending(found: Iterator[tuple[Address, bytes]]) -> Iterator[tuple[Address, bytes]]:
    last = b""
    for at, data in found:
        if at <= last:
            raise StateCorruptError(f"state address {at.hex()} is out of order: it follows {last.hex()}")
        yield at, data
        last = at


def _in_group(
    members: Iterator[tuple[Address, bytes]], table: Mapping[int, StateEntry], max_parallelism: int
) -> Iterator[str]:
    expected: dict[_Place, int | None] = {}
    counted: Counter[_Place] = Counter()
    for at, data in members:
        parts = split(at)
        key = owner_of(parts)
        right = key_group(key, max_parallelism)
        if right != parts.key_group:
            yield f"key {key_of(key)!r} is stored in key group {parts.key_group}; expected key group {right}"
        if parts.state == ROWS:
            yield from _in_row(parts, data, table, expected)
        elif parts.state >= COLLECTIONS:
            counted[parts.state, parts.key, parts.namespace] += 1
    for place in {**expected, **counted}:
        name = table[place[0] - COLLECTIONS].name if place[0] - COLLECTIONS in table else f"{place[0]}"
        whole = expected.get(place, 0)
        if (whole is None and not counted[place]) or (whole is not None and whole != counted[place]):
            yield (
                f"state {name!r} of key {key_of(place[1])!r} has {counted[place]} stored parts; expected "
                f"{'at least 1' if whole is None else whole}, according to its row"
            )


def _in_row(
    parts: Parts, data: bytes, table: Mapping[int, StateEntry], expected: dict[_Place, int | None]
) -> Iterator[str]:
    """Checks a row; records how many parts each list has outside it, None for a map: at least one."""
    for slot, held in enumerate(unpack_slots(data)):
        if held is None:
            continue
        if slot not in table:
            yield f"the row of key {key_of(parts.key)!r} has a value in slot {slot}, which no log segment describes"
        elif table[slot].kind == "list":
            expected[COLLECTIONS + slot, parts.key, parts.namespace] = unpack_head(held)[0]
        elif table[slot].kind in MAPS:
            expected[COLLECTIONS + slot, parts.key, parts.namespace] = None
