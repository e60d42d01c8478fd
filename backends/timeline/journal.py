"""Reader of journals: every change of an operator's state and its cause, from the journals of its checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from tidegate.backends.keyed.address import group_of, split
from tidegate.backends.keyed.journal import Cause, groups_of
from tidegate.backends.keyed.restore import moved
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.keyed.table import StateEntry, StateTable
from tidegate.backends.savepoint.records import Records, disassemble
from tidegate.backends.spi import Address, BackendContext, Entry, KeyedHandle
from tidegate.backends.timeline.changes import Change, changes
from tidegate.backends.timeline.content import Wanted, entries, owner_of, table_of

__all__ = ["mutations"]

_Held = dict[bytes, dict[Address, bytes]]


def mutations(
    before: Sequence[KeyedHandle], handle: KeyedHandle, context: BackendContext, wanted: Wanted | None = None
) -> Iterator[tuple[Change, Cause | None]]:
    """The changes in the journal of a handle, in order, applied to the content before it.

    What is in memory at once grows with the keys that the journal names, not with the state.

    Raises:
        StateCorruptError: a file is missing or damaged.
        StateFormatError: a newer version wrote it.
    """
    if handle.journal is None:
        return
    journal = read_segment(context.files, handle.journal)
    told = [entry for entry in journal.entries if not entry[0] or wanted is None or wanted(entry[0])]
    table = StateTable(journal.table)
    near = [other for other in before if other.key_groups.intersect(handle.key_groups)]
    held = _held(near, context, {_key_of(at) for at, _ in told if at}, table)
    for cause, group in groups_of(told):
        for key in dict.fromkeys(_key_of(at) for at, _ in group):
            rows = held.setdefault(key, {})
            old = _records(rows, table.entries)
            _apply(rows, [entry for entry in group if _key_of(entry[0]) == key])
            yield from ((change, cause) for change in changes(old, _records(rows, table.entries)))


def _held(
    before: Iterable[KeyedHandle], context: BackendContext, keys: Collection[bytes], table: StateTable
) -> _Held:
    """What was held of some keys, with the slots of `table`: each subtask numbers its own."""
    found: _Held = {}
    for number, handle in enumerate(before):
        slots = table.merge(table_of(handle, context.files))
        for at, data in moved(entries(handle, context, number, lambda at: _key_of(at) in keys), slots):
            if data is not None:
                found.setdefault(_key_of(at), {})[at] = data
    return found


def _apply(rows: dict[Address, bytes], group: Iterable[Entry]) -> None:
    for at, data in group:
        if data is None:
            rows.pop(at, None)
        else:
            rows[at] = data


def _records(rows: dict[Address, bytes], table: Sequence[StateEntry]) -> list[tuple[int, Records]]:
    return [(group_of(next(iter(rows))), disassemble(sorted(rows.items()), table))] if rows else []


def _key_of(at: Address) -> bytes:
    return owner_of(split(at))
