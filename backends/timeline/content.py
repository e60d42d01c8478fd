"""Content of state handles, entry by entry: a base and the segments after it, merged, for all backends.

No backend is opened and nothing is written but what a base needs to be read, below the context's directory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from heapq import merge
from itertools import groupby
from typing import Any

from tidegate.backends.keyed.address import EVENT_TIMERS, PROCESSING_TIMERS, Parts, group_of, split
from tidegate.backends.keyed.restore import read_base
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.savepoint.records import Records, disassemble
from tidegate.backends.spi import Address, BackendContext, Entry, KeyedHandle, SnapshotFiles
from tidegate.keys import key_group

__all__ = ["Wanted", "entries", "of_keys", "owner_of", "records", "table_of"]

Wanted = Callable[[Address], bool]
"""Which addresses a reader asks for."""

_TIMERS = frozenset({EVENT_TIMERS, PROCESSING_TIMERS})


def table_of(handle: KeyedHandle, files: SnapshotFiles) -> tuple[StateEntry, ...]:
    """The states that a handle knows.

    Raises:
        StateCorruptError: its newest segment is missing or damaged.
    """
    return read_segment(files, handle.segments[-1]).table if handle.segments else ()


def entries(
    handle: KeyedHandle, context: BackendContext, number: int = 0, wanted: Wanted | None = None
) -> Iterator[tuple[Address, bytes]]:
    """The entries of a handle, by address; `number` separates it from others read in the same context.

    Raises:
        StateCorruptError: a file is missing or damaged.
        StateFormatError: a newer version wrote it.
    """
    logged: dict[Address, bytes | None] = {}
    for chunk in handle.segments:
        logged.update(read_segment(context.files, chunk).entries)
    base = read_base(handle.base, context, number) if handle.base is not None else iter(())
    # The merge keeps equal addresses in the order of its inputs, so what was logged comes before what it replaced.
    for at, versions in groupby(merge(sorted(logged.items()), base, key=_address), key=_address):
        data = next(versions)[1]
        # A base can hold more than the handle's key groups since it was dealt to several subtasks.
        if data is not None and group_of(at) in handle.key_groups and (wanted is None or wanted(at)):
            yield at, data


def records(
    handles: Sequence[KeyedHandle], context: BackendContext, wanted: Wanted | None = None
) -> Iterator[tuple[int, Records]]:
    """What an operator holds, one key group after the other; raises as `entries` does."""
    ordered = sorted(handles, key=lambda handle: handle.key_groups.first)
    for number, handle in enumerate(ordered):
        table = table_of(handle, context.files)
        held = entries(handle, context, number, wanted)
        for group, members in groupby(held, key=lambda entry: group_of(entry[0])):
            yield group, disassemble(members, table)


def of_keys(keys: Collection[bytes], max_parallelism: int) -> Wanted:
    """Asks for everything that belongs to one of these keys, timers too."""
    groups = {key_group(key, max_parallelism) for key in keys}

    def wanted(at: Address) -> bool:
        return group_of(at) in groups and owner_of(split(at)) in keys

    return wanted


def owner_of(parts: Parts) -> bytes:
    """The key that an entry belongs to; the address of a timer has its time before the key."""
    return parts.key[8:] if parts.state in _TIMERS else parts.key


def _address(entry: Entry | tuple[Address, Any]) -> Address:
    return entry[0]
