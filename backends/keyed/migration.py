"""State migration: values stored with another type or time to live are rewritten once, when the state is requested.

Example:
    >>> from tidegate.backends.keyed.descriptors import ValueStateDescriptor
    >>> from tidegate.serde import codec_for
    >>> from tidegate.types import Types
    >>> mean = ValueStateDescriptor("mean", Types.DOUBLE())
    >>> convert = conversion("value long (msgspec 1)", mean, now=0)
    >>> codec_for(Types.DOUBLE()).decode(convert(codec_for(Types.LONG()).encode(3)))
    3.0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from tidegate.backends.keyed.address import ROWS
from tidegate.backends.keyed.descriptors import StateDescriptor
from tidegate.backends.keyed.expiring import STAMP
from tidegate.backends.keyed.list_state import convert_chunk, convert_head
from tidegate.backends.keyed.row import pack_slots, unpack_slots
from tidegate.backends.keyed.table import MAPS, StateEntry, disagreement, entry_of
from tidegate.backends.spi import Address, Entry
from tidegate.errors import StateFormatError
from tidegate.evolution import converter

__all__ = ["conversion", "rewritten"]

Convert = Callable[[bytes], bytes]


def conversion(stored: str, descriptor: StateDescriptor, now: int) -> Convert:
    """Turns the bytes of one value of a state with the fingerprint `stored` into those the descriptor asks for.

    What had no time to live, and is to have one, lives from `now`. The function it gives raises StateFormatError
    for a value that cannot become one of the new type.

    Raises:
        StateFormatError: the state was another one; says which field is in the way.
    """
    wanted = entry_of(descriptor).fingerprint
    before, after = _parsed(stored), _parsed(wanted)
    try:
        if (before.kind, before.map_key) != (after.kind, after.map_key):
            raise StateFormatError("the kind of a state and the keys of its map cannot change")
        same = before[-3:] == after[-3:]
        convert = _same if same else converter(*before[-3:], descriptor.stored_type)
        convert = _stamped(convert, before, after, descriptor, now)
    except StateFormatError as error:
        # Where the type itself is in the way, and no field of it, all is said already.
        why = "" if str(error).startswith("got ") else f"; {error}"
        raise disagreement(descriptor.name, wanted, stored, why) from error

    def convert_value(data: bytes) -> bytes:
        try:
            return convert(data)
        except StateFormatError as error:
            raise StateFormatError(
                f"state {descriptor.name!r}: {error}; restore an older checkpoint with the program that wrote it"
            ) from error

    return convert_value


def rewritten(
    entry: StateEntry, convert: Convert, scan: Callable[[int], Iterable[tuple[Address, bytes]]]
) -> Iterator[Entry]:
    """All stored entries of a state with each of its values converted; `scan` gives those of a number."""
    for at, data in scan(ROWS) if entry.kind not in MAPS else ():
        parts = unpack_slots(data)
        part = parts[entry.slot] if entry.slot < len(parts) else None
        if part is not None:
            parts[entry.slot] = convert_head(part, convert) if entry.kind == "list" else convert(part)
            yield at, pack_slots(parts)
    for at, data in scan(entry.state) if entry.state != ROWS else ():
        yield at, convert_chunk(data, convert) if entry.kind == "list" else convert(data)


class _Stored(NamedTuple):
    """The parts of a fingerprint."""

    kind: str
    expiring: bool
    map_key: str
    type: str
    codec: str
    version: int


_FINGERPRINT: Final = re.compile(
    r"(?P<kind>\w+) (?P<expiring>expiring )?(?P<type>.*) \((?P<codec>\S+) (?P<version>\d+)\)", re.DOTALL
)


def _parsed(fingerprint: str) -> _Stored:
    found = _FINGERPRINT.fullmatch(fingerprint)
    if found is None:
        raise StateFormatError(f"unknown state fingerprint {fingerprint!r}; upgrade tidegate")
    kind, stored, map_key = found["kind"], found["type"], ""
    if kind in MAPS:
        map_key, _, stored = stored.removeprefix("of ").partition(" to ")
    return _Stored(kind, bool(found["expiring"]), map_key, stored, found["codec"], int(found["version"]))


def _stamped(
    convert: Convert, before: _Stored, after: _Stored, descriptor: StateDescriptor, now: int
) -> Convert:
    if before.expiring and after.expiring:
        return lambda data: data[: STAMP.size] + convert(data[STAMP.size :])
    if before.expiring:
        raise StateFormatError("a time to live cannot be removed; set a long one")
    if after.expiring:
        if descriptor.ttl_config is None or not descriptor.ttl_config.migrates:
            raise StateFormatError(
                "stored values have no expiry time; set migrate_ttl() of its StateTtlConfig to start their time "
                "to live at the restore"
            )
        return lambda data: STAMP.pack(now) + convert(data)
    return convert


def _same(data: bytes) -> bytes:
    return data
