"""The state table: which slot or state id belongs to which declared state, and how its values were encoded.

It travels in the header of every segment, so stored bytes can be read without the program that wrote them.

Example:
    >>> table = StateTable()
    >>> table.slot(ValueStateDescriptor("count"))
    0
    >>> [entry.name for entry in table.entries]
    ['count']
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidegate.backends.keyed.address import ROWS
from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.errors import StateFormatError
from tidegate.serde import codec_for

__all__ = ["StateEntry", "StateTable"]


class StateEntry(msgspec.Struct, frozen=True, array_like=True):
    """One declared state. Value states share the state id of the rows and differ by slot."""

    name: str
    kind: str
    state: int
    slot: int
    type: str
    codec: str
    codec_version: int

    @property
    def fingerprint(self) -> str:
        """How its values are encoded, as text; equal for states that can read each other's bytes."""
        return f"{self.kind} {self.type} ({self.codec} {self.codec_version})"


class StateTable:
    """The states of one operator in one subtask; entries are added and never change."""

    def __init__(self, entries: Iterable[StateEntry] = ()) -> None:
        self._by_name = {entry.name: entry for entry in entries}

    @property
    def entries(self) -> tuple[StateEntry, ...]:
        """All entries in the order they were added."""
        return tuple(self._by_name.values())

    def slot(self, descriptor: ValueStateDescriptor) -> int:
        """The slot of a value state in its row, new if the name is new.

        Raises:
            StateFormatError: the name is known and its bytes were written with another type or codec.
        """
        codec = codec_for(descriptor.type_info)
        wanted = StateEntry(
            descriptor.name, "value", ROWS, len(self._by_name), codec.fingerprint, codec.id, codec.version
        )
        return self._agree(wanted).slot

    def merge(self, others: Iterable[StateEntry]) -> dict[int, int]:
        """Add the states of another table; where each of its slots is in this one.

        Raises:
            StateFormatError: both know a name with different types.
        """
        return {
            other.slot: self._agree(msgspec.structs.replace(other, slot=len(self._by_name))).slot
            for other in others
        }

    def _agree(self, wanted: StateEntry) -> StateEntry:
        known = self._by_name.setdefault(wanted.name, wanted)
        if known.fingerprint != wanted.fingerprint:
            raise StateFormatError(
                f"state {wanted.name!r} was stored with another type; got {wanted.fingerprint}; "
                f"expected {known.fingerprint}; declare that type, give the state another name "
                "or restore an older checkpoint"
            )
        return known
