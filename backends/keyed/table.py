"""State table: the slot or state id of each declared state, and the encoding of its values.

It travels in the header of every segment, so stored bytes can be read without the program that wrote them.

Example:
    >>> from tidegate.backends.keyed.descriptors import ValueStateDescriptor
    >>> table = StateTable()
    >>> table.add(ValueStateDescriptor("count")).slot
    0
    >>> [entry.name for entry in table.entries]
    ['count']
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from tidegate.backends.keyed.address import COLLECTIONS, ROWS
from tidegate.backends.keyed.descriptors import MapStateDescriptor, StateDescriptor
from tidegate.errors import StateFormatError
from tidegate.serde import codec_for

__all__ = ["MAPS", "StateEntry", "StateTable", "disagreement", "entry_of"]

MAPS: Final = frozenset({"map", "ordered_map"})
"""The kinds of states that are maps."""

_COLLECTED: Final = MAPS | {"list"}
_EXPIRING: Final = "expiring "


class StateEntry(msgspec.Struct, frozen=True, array_like=True):
    """One declared state: its slot in the rows, and where its entries are.

    States of one value per key live in the rows themselves; lists and maps have entries outside them.
    """

    name: str
    kind: str
    state: int
    slot: int
    type: str
    codec: str
    codec_version: int
    left_out_ms: int = 0
    """How long after its expiry a value is dropped when state is rewritten; 0: never."""

    @property
    def fingerprint(self) -> str:
        """How its values are encoded, as text; equal for states that can read each other's bytes."""
        return f"{self.kind} {self.type} ({self.codec} {self.codec_version})"

    @property
    def expires(self) -> bool:
        """Whether a moment stands before each of its values."""
        return self.type.startswith(_EXPIRING)


class StateTable:
    """The states of one operator in one subtask; entries are added and stay in their place."""

    def __init__(self, entries: Iterable[StateEntry] = ()) -> None:
        self._by_name = {entry.name: entry for entry in entries}

    @property
    def entries(self) -> tuple[StateEntry, ...]:
        """All entries in the order they were added."""
        return tuple(self._by_name.values())

    def find(self, name: str) -> StateEntry | None:
        """The entry of a name, if there is one."""
        return self._by_name.get(name)

    def add(self, descriptor: StateDescriptor) -> StateEntry:
        """The entry of a state, new if the name is new.

        Raises:
            StateFormatError: the name is known and its bytes were written with another type or codec.
        """
        wanted = entry_of(descriptor, len(self._by_name))
        return self._leave_out(self._agree(wanted), wanted.left_out_ms)

    def convert(self, descriptor: StateDescriptor) -> None:
        """The bytes of a state are from now on as its descriptor says; they stay where they are."""
        new, known = entry_of(descriptor), self._by_name[descriptor.name]
        self._by_name[new.name] = msgspec.structs.replace(new, slot=known.slot, state=known.state)

    def name_of(self, state: int) -> str:
        """How messages call the state with a number of an address; values of one operator share theirs."""
        names = [repr(entry.name) for entry in self._by_name.values() if entry.state == state]
        return " with ".join(names) or "of timers"

    def merge(self, others: Iterable[StateEntry]) -> dict[int, int]:
        """Add the states of another table; where each of its slots is in this one.

        Raises:
            StateFormatError: both know a name with different types.
        """
        slots: dict[int, int] = {}
        for other in others:
            known = self._agree(self._moved(other))
            slots[other.slot] = known.slot
            if known.left_out_ms != other.left_out_ms:
                self._leave_out(known, 0)  # until it is requested, it is unknown which of them is valid
        return slots

    def _leave_out(self, known: StateEntry, after_ms: int) -> StateEntry:
        self._by_name[known.name] = found = msgspec.structs.replace(known, left_out_ms=after_ms)
        return found

    def _moved(self, other: StateEntry) -> StateEntry:
        slot = len(self._by_name)
        state = ROWS if other.state == ROWS else COLLECTIONS + slot
        return msgspec.structs.replace(other, slot=slot, state=state)

    def _agree(self, wanted: StateEntry) -> StateEntry:
        known = self._by_name.setdefault(wanted.name, wanted)
        if known.fingerprint != wanted.fingerprint:
            raise disagreement(wanted.name, wanted.fingerprint, known.fingerprint)
        return known


def entry_of(descriptor: StateDescriptor, slot: int = 0) -> StateEntry:
    """The entry of a new state in a slot."""
    codec = codec_for(descriptor.stored_type)
    stored = codec.fingerprint
    if isinstance(descriptor, MapStateDescriptor):
        stored = f"of {descriptor.key_type_info or 'any'} to {stored}"
    if descriptor.ttl_config is not None:
        stored = f"{_EXPIRING}{stored}"
    state = COLLECTIONS + slot if descriptor.kind in _COLLECTED else ROWS
    left_out_ms = descriptor.ttl_config.left_out_ms if descriptor.ttl_config is not None else 0
    return StateEntry(
        descriptor.name, descriptor.kind, state, slot, stored, codec.id, codec.version, left_out_ms
    )


def disagreement(name: str, declared: str, stored: str, why: str = "") -> StateFormatError:
    """A state is wanted as something that it was not stored as; both by their fingerprints."""
    was, wanted = readable(stored), readable(declared)
    if was == wanted:
        was, wanted = stored, declared
    return StateFormatError(
        f"state {name!r} was stored with another type; stored as {was}, the program declares {wanted}{why}; "
        "declare the stored type, give the state another name, or restore an older checkpoint"
    )


def readable(fingerprint: str) -> str:
    """A readable form of a fingerprint.

    Example:
        >>> readable("value long (msgspec 1)"), readable("map of string to list<double> (msgspec 1)")
        ('int', 'map of str to list<float>')
    """
    text = _CODEC.sub("", fingerprint).removeprefix("value ")
    return _KIND.sub(lambda found: _PYTHON[found[0]], text)


_CODEC: Final = re.compile(r" \(\S+ \d+\)$")
_PYTHON: Final = {
    **dict.fromkeys(("byte", "short", "int", "long", "big_int"), "int"),
    **dict.fromkeys(("float", "double"), "float"),
    "string": "str",
    "boolean": "bool",
}
_KIND: Final = re.compile(rf"\b(?:{'|'.join(_PYTHON)})\b(?!:)")
