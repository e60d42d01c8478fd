"""Conversion between the entries of one key group and records of its states.

Rows, chunks and markers are how `backends.keyed` arranges state; a record is what a reader expects: one value, one
element of a list with its position, one entry of a map, or one timer with its time. Records hold encoded bytes.

Example:
    >>> count = StateEntry("count", "value", ROWS, 0, "long", "msgspec", 1)
    >>> entries = [(address(7, ROWS, b"ada"), pack_slots([b"5"]))]
    >>> disassemble(entries, [count])[count]
    [Record(key=b'ada', namespace=b'', sub=None, value=b'5')]
    >>> assemble(disassemble(entries, [count]), lambda key: 7) == entries
    True
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from tidegate.backends.keyed.address import EVENT_TIMERS, PROCESSING_TIMERS, ROWS, Parts, address, split
from tidegate.backends.keyed.expiring import STAMP
from tidegate.backends.keyed.list_state import chunked, pack_head, unpack_chunk, unpack_head
from tidegate.backends.keyed.row import pack_slots, unpack_slots
from tidegate.backends.keyed.table import MAPS, StateEntry
from tidegate.backends.keyed.timers import moment_bytes, moment_from_bytes
from tidegate.backends.spi import Address, Entry
from tidegate.keys import key_bytes, key_from_bytes
from tidegate.ordered import ordered_bytes, ordered_value

__all__ = ["TIMERS", "Record", "Records", "assemble", "disassemble", "living"]

TIMERS: Final = (
    StateEntry("event", "timers", EVENT_TIMERS, -1, "", "", 0),
    StateEntry("processing", "timers", PROCESSING_TIMERS, -1, "", "", 0),
)
"""The timers of both time services, described as states are; they have no slot."""


class Record(NamedTuple):
    """One value. `sub` is the position in a list, the time of a timer, or the bytes of a map's key."""

    key: bytes
    namespace: bytes
    sub: Any
    value: bytes


Records = Mapping[StateEntry, Sequence[Record]]


def disassemble(entries: Iterable[tuple[Address, bytes]], table: Iterable[StateEntry]) -> Records:
    """The records of one key group, of each state in order; entries are in ascending order.

    Raises:
        StateCorruptError: an address is malformed.
    """
    found: dict[StateEntry, list[Record]] = defaultdict(list)
    states = [*table, *TIMERS]
    beside = {entry.state: entry for entry in states if entry.state != ROWS}
    slots = {entry.slot: entry for entry in states if entry.slot >= 0}
    lists: dict[StateEntry, dict[tuple[bytes, bytes], tuple[list[bytes], list[bytes]]]] = defaultdict(dict)
    for at, data in entries:
        parts = split(at)
        if parts.state != ROWS:
            entry = beside[parts.state]
            if entry.kind == "list":
                lists[entry][parts.key, parts.namespace][0].extend(unpack_chunk(data))
            else:
                found[entry].append(_beside(entry, parts, data))
            continue
        for slot, part in enumerate(unpack_slots(data)):
            entry = slots[slot]
            if part is None or entry.kind in MAPS:
                continue
            if entry.kind == "list":
                lists[entry][parts.key, parts.namespace] = [], unpack_head(part)[1]
            else:
                found[entry].append(Record(parts.key, parts.namespace, None, part))
    for entry, content in lists.items():
        found[entry] = [
            Record(key, namespace, position, element)
            for (key, namespace), (chunks, tail) in content.items()
            for position, element in enumerate(chunks + tail)
        ]
    return found


def living(records: Records, now_ms: int) -> Records:
    """The records without those that have expired, of states that ask for it; lists are renumbered."""
    return {
        state: _living(state, held, now_ms) if state.left_out_ms else held for state, held in records.items()
    }


def assemble(records: Records, group_of: Callable[[bytes], int]) -> list[Entry]:
    """The entries that `disassemble` took apart, in ascending order; lists may be cut into other chunks."""
    rows: dict[tuple[bytes, bytes], dict[int, bytes]] = defaultdict(dict)
    entries: list[Entry] = []
    for entry, content in records.items():
        lists: dict[tuple[bytes, bytes], list[bytes]] = defaultdict(list)
        for key, namespace, sub, value in content:
            group = group_of(key)
            if entry.kind == "timers":
                entries.append((address(group, entry.state, moment_bytes(sub) + key, namespace), value))
            elif entry.kind in MAPS:
                subkey = ordered_bytes(key_from_bytes(sub)) if entry.kind == "ordered_map" else sub
                entries.append((address(group, entry.state, key, namespace, subkey), value))
                rows[key, namespace][entry.slot] = b""
            elif entry.kind == "list":
                lists[key, namespace].append(value)
            else:
                rows[key, namespace][entry.slot] = value
        for (key, namespace), elements in lists.items():
            chunks, rest = chunked(elements)
            rows[key, namespace][entry.slot] = pack_head(len(chunks), rest)
            where = (group_of(key), entry.state, key, namespace)
            entries.extend((address(*where, key_bytes(number)), chunk) for number, chunk in enumerate(chunks))
    for (key, namespace), slots in rows.items():
        row = pack_slots([slots.get(slot) for slot in range(max(slots) + 1)])
        entries.append((address(group_of(key), ROWS, key, namespace), row))
    return sorted(entries)


def _living(state: StateEntry, held: Sequence[Record], now_ms: int) -> Sequence[Record]:
    limit = now_ms - state.left_out_ms
    kept = [record for record in held if STAMP.unpack_from(record.value)[0] > limit]
    if state.kind != "list":
        return kept
    lists = groupby(kept, key=lambda record: record[:2])
    return [record._replace(sub=place) for _, elements in lists for place, record in enumerate(elements)]


def _beside(entry: StateEntry, parts: Parts, data: bytes) -> Record:
    if entry.kind == "timers":
        return Record(parts.key[8:], parts.namespace, moment_from_bytes(parts.key), data)
    ordered = entry.kind == "ordered_map"
    map_key = key_bytes(ordered_value(parts.subkey)) if ordered else parts.subkey
    return Record(parts.key, parts.namespace, map_key, data)
