"""The row of a key: all value states of an operator side by side, and the handles user functions hold.

A key has one more row for each namespace it uses, such as a window, with the same slots.

A record costs one look-up (`KeyedStore.bind`); reading and updating a state after that touches one slot of the bound
row. A slot holds None (nothing stored), a `Raw` (stored, not decoded yet) or the live value.

What a function does to a value it read counts, as if it had called `update`: reading a mutable value marks the row
changed, and the row is logged if its bytes differ at the barrier. At the barrier live mutable values are replaced by
their bytes, so a reference kept from an earlier epoch changes nothing, on every backend alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.backends.spi import Address
from tidegate.errors import ConfigError, RecordError
from tidegate.isolation import is_immutable, isolate
from tidegate.serde import Codec, codec_for

__all__ = ["Cursor", "Raw", "Row", "RowCodec", "ValueState"]

_ATOMS: Final = frozenset({bool, bytes, float, int, str})


class Raw:
    """The encoded value of a slot."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Row:
    """The slots of one key, or of one namespace of it, with the bytes they were last stored as (None: not stored)."""

    __slots__ = ("address", "changed", "encoded", "key", "namespace", "values")

    def __init__(
        self,
        key: Any,
        address: Address,
        encoded: bytes | None,
        values: list[Any],
        namespace: bytes | None = None,
    ) -> None:
        self.key = key
        self.namespace = namespace
        self.address = address
        self.encoded = encoded
        self.values = values
        self.changed = False


class _Unbound(Row):
    """What handles see between records."""

    __slots__ = ()

    def __init__(self) -> None:
        self.changed = True

    def __getattr__(self, name: str) -> Any:
        raise ConfigError(
            "keyed state is used where no key is bound; use it while a record or timer is processed"
        )


class Cursor:
    """Which row the handles of one operator are bound to, and which rows changed since the last barrier.

    The cursors of one operator share what changed.
    """

    __slots__ = ("changed", "row")

    def __init__(self, changed: dict[Row, None] | None = None) -> None:
        self.changed: dict[Row, None] = changed if changed is not None else {}
        self.row: Row = UNBOUND

    def mark(self, row: Row) -> None:
        """Remember that a row's bytes may differ from what is stored."""
        row.changed = True
        self.changed[row] = None


class RowCodec:
    """Rows as bytes: a msgpack array of the encoded slots without the trailing empty ones.

    `width` is how many slots a row needs. Only declared slots hold live values, others stay as they were stored.
    """

    def __init__(self) -> None:
        self._codecs: dict[int, tuple[str, Codec]] = {}
        self.width = 0

    def declare(self, slot: int, name: str, codec: Codec) -> None:
        """Use `codec` for the values of a slot."""
        self._codecs[slot] = (name, codec)
        self.width = max(self.width, slot + 1)

    def unpack(self, data: bytes | None) -> list[Any]:
        """The slots of a stored row, not decoded, at least as many as are declared."""
        if data is None:
            return [None] * self.width
        values: list[Any] = [None if part is None else Raw(part) for part in unpack_slots(data)]
        values.extend([None] * (self.width - len(values)))
        return values

    def settle(self, row: Row) -> bytes | None:
        """Encode a row and drop its live mutable values; None if every slot is empty.

        Raises:
            RecordError: a value cannot be encoded.
        """
        parts: list[bytes | None] = []
        for slot, value in enumerate(row.values):
            if value is None:
                parts.append(None)
            elif type(value) is Raw:
                parts.append(value.data)
            else:
                parts.append(part := self._encode(slot, row, value))
                if type(value) not in _ATOMS:
                    row.values[slot] = Raw(part)
        return pack_slots(parts)

    def _encode(self, slot: int, row: Row, value: Any) -> bytes:
        name, codec = self._codecs[slot]
        try:
            return codec.encode(value)
        except Exception as error:
            error.add_note(f"while storing state {name!r} of key {row.key!r}")
            raise


class ValueState:
    """One value for the key at hand; made by `KeyedStore.value_state`, used by user functions."""

    __slots__ = ("_checked", "_codec", "_cursor", "_default", "_name", "_slot", "_usual")

    def __init__(self, descriptor: ValueStateDescriptor, slot: int, cursor: Cursor) -> None:
        self._name = descriptor.name
        self._default = descriptor.default
        self._codec = codec_for(descriptor.type_info)
        self._slot = slot
        self._cursor = cursor
        self._checked: set[type] = set()
        # The last immutable type seen to survive the codec: the one comparison most values pass by.
        self._usual: type | None = None

    def value(self) -> Any:
        """The value of the key, the descriptor's default if there is none."""
        value = self._cursor.row.values[self._slot]
        return value if type(value) is self._usual else self._read(value)

    def update(self, value: Any) -> None:
        """Store a value; None clears. A mutable value is copied: later changes to the argument do not count.

        Raises:
            RecordError: the state's codec would not give the same value back.
        """
        row = self._cursor.row
        if type(value) is not self._usual:
            value = self._accept(value, row.values[self._slot])
        row.values[self._slot] = value
        if not row.changed:
            self._cursor.mark(row)

    def clear(self) -> None:
        """Forget the value of the key."""
        row = self._cursor.row
        row.values[self._slot] = None
        if not row.changed:
            self._cursor.mark(row)

    def _read(self, stored: Any) -> Any:
        row = self._cursor.row
        if stored is None and (self._default is None or is_immutable(self._default)):
            return self._default
        if stored is None:
            value = isolate(self._default)
        elif type(stored) is Raw:
            value = self._codec.decode(stored.data)
        else:
            value = stored
        row.values[self._slot] = value
        if type(value) in _ATOMS:
            self._usual = type(value)
        elif not row.changed and not is_immutable(value):
            self._cursor.mark(row)
        return value

    def _accept(self, value: Any, stored: Any) -> Any:
        if value is None or value is stored:
            return value
        if type(value) not in self._checked:
            self._check(value)
        if type(value) in _ATOMS:
            self._usual = type(value)
            return value
        return isolate(value)

    def _check(self, value: Any) -> None:
        """Refuse a type at its first value, not at the barrier."""
        try:
            self._codec.encode(value)
        except RecordError as error:
            error.add_note(f"while updating state {self._name!r} of key {self._cursor.row.key!r}")
            raise
        self._checked.add(type(value))


def pack_slots(parts: Sequence[bytes | None]) -> bytes | None:
    """A row's bytes from the bytes of its slots; None if all are empty."""
    used = len(parts)
    while used and parts[used - 1] is None:
        used -= 1
    return _ENCODER.encode(parts[:used]) if used else None


def unpack_slots(data: bytes) -> list[bytes | None]:
    """The bytes of the slots of a row."""
    return _DECODER.decode(data)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[bytes | None])
UNBOUND: Final[Row] = _Unbound()
