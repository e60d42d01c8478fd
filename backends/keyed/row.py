"""Row of a key: all value states of an operator in one entry, and the state handles of user functions.

A key has one more row for each namespace it uses, such as a window, with the same slots.

A record costs one look-up (`KeyedStore.bind`); reading and updating a state after that touches one slot of the bound
row. A slot holds None (nothing stored), a `Raw` (stored, not decoded yet), a `Live` value, which can change in place, a
`Collection`, or else an immutable value.

What a function does to a value it read counts, as if it had called `update`: reading a mutable value marks the row
changed, and the row is logged if its bytes differ at the barrier. At the barrier live mutable values are replaced by
their bytes, so a reference kept from an earlier epoch changes nothing, on every backend alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, Final, TypeVar, cast

import msgspec

from tidegate.backends.keyed.asynchronous import AsyncValue
from tidegate.backends.keyed.collection import ATOMS, Collection, Live, Raw, Values
from tidegate.backends.spi import Address, Entry
from tidegate.errors import ConfigError
from tidegate.isolation import is_immutable, isolate

__all__ = ["Cursor", "Row", "RowCodec", "ValueState"]

T = TypeVar("T")


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
            "keyed state is used without a current key; use it only while a record or timer is processed"
        )


class Cursor:
    """Which row the handles of one operator are bound to, and which rows changed since the last barrier.

    The cursors of one operator share what changed, and which rows hold more than should stay in memory.
    """

    __slots__ = ("changed", "crowded", "row")

    def __init__(self, beside: Cursor | None = None) -> None:
        self.changed: dict[Row, None] = beside.changed if beside is not None else {}
        self.crowded: dict[Row, None] = beside.crowded if beside is not None else {}
        self.row: Row = UNBOUND

    def mark(self, row: Row) -> None:
        """Mark a row as changed: its bytes may differ from the stored ones."""
        row.changed = True
        self.changed[row] = None


class RowCodec:
    """Rows as bytes: a msgpack array of the encoded slots without the trailing empty ones.

    `width` is how many slots a row needs. Only declared slots hold live values, others stay as they were stored.
    """

    def __init__(self) -> None:
        self._values: dict[int, Values] = {}
        self._collections: dict[int, Callable[[Row], Collection]] = {}
        self.width = 0

    def declare(self, slot: int, values: Values) -> None:
        """Encode what is in a slot as `values` does."""
        self._values[slot] = values
        self.width = max(self.width, slot + 1)

    def declare_collection(self, slot: int, content: Callable[[Row], Collection]) -> None:
        """The slot holds a collection; `content` opens that of a row."""
        self._collections[slot] = content

    def unpack_each(self, stored: Sequence[bytes | None]) -> list[list[Any]]:
        """`unpack` of each; most rows that are not cached are new where there are more keys than fit."""
        nothing, unpack = [None] * self.width, self.unpack
        return [nothing.copy() if data is None else unpack(data) for data in stored]

    def unpack(self, data: bytes | None) -> list[Any]:
        """The slots of a stored row, not decoded, at least as many as are declared."""
        if data is None:
            return [None] * self.width
        values: list[Any] = [None if part is None else Raw(part) for part in _DECODER.decode(data)]
        if len(values) < self.width:
            values.extend([None] * (self.width - len(values)))
        return values

    def collects(self, slot: int) -> bool:
        """Whether a declared collection uses a slot."""
        return slot in self._collections

    def clear(self, row: Row) -> None:
        """Empty every slot; entries of collections outside the row are removed when it is settled."""
        for slot, value in enumerate(row.values):
            if value is not None and slot in self._collections:
                self._collections[slot](row).clear()
            else:
                row.values[slot] = None

    def settle(self, rows: Sequence[Row], entries: list[Entry]) -> list[bytes | None]:
        """Encode rows and drop their live mutable values; None for a row whose slots are all empty.

        Entries of collections outside the rows are appended to `entries`.

        Raises:
            RecordError: a value cannot be encoded.
        """
        held = [row.values for row in rows]
        widths = set(map(len, held))
        width = max(widths, default=0)
        if len(widths) > 1:
            for values in held:
                values.extend([None] * (width - len(values)))
        # By column: most columns hold values of one kind, and those cost no call for each.
        columns = [
            self._settle_column(slot, [values[slot] for values in held], rows, entries)
            for slot in range(width)
        ]
        if not columns:
            return [None] * len(rows)
        last = columns[-1]
        if None in last:
            return list(map(pack_slots, zip(*columns, strict=True)))
        if width == 1:
            # What an encoder gives has room to grow, up to half of its size, and all state would carry that along.
            return [_HEADS[len(part)] + part for part in cast("Sequence[bytes]", last)]
        return list(map(_ENCODER.encode, zip(*columns, strict=True)))

    def _settle_column(
        self, slot: int, column: Sequence[Any], rows: Sequence[Row], entries: list[Entry]
    ) -> Sequence[bytes | None]:
        kinds = set(map(type, column))
        plain = _UNENCODED.isdisjoint(kinds) and not any(issubclass(kind, Collection) for kind in kinds)
        if plain or kinds == {Live}:
            values = column if plain else [held.value for held in column]
            try:
                parts = self._values[slot].encode_each(values)
            except Exception:  # one by one below says whose value it was
                pass
            else:
                for row, part in zip(rows, parts, strict=True) if not plain else ():
                    row.values[slot] = Raw(part)
                return parts
        return self._settle_values(slot, rows, entries)

    def _settle_values(self, slot: int, rows: Sequence[Row], entries: list[Entry]) -> list[bytes | None]:
        parts: list[bytes | None] = []
        try:
            for row in rows:
                value = row.values[slot]
                kind = type(value)
                if value is None:
                    parts.append(None)
                elif kind is Raw:
                    parts.append(value.data)
                elif kind is Live:
                    parts.append(part := self._values[slot].encode(value.value))
                    row.values[slot] = Raw(part)
                elif kind not in ATOMS and isinstance(value, Collection):
                    parts.append(value.settle(entries))
                else:
                    parts.append(self._values[slot].encode(value))
        except Exception as error:
            error.add_note(f"while storing state {self._values[slot].name!r} of key {row.key!r}")
            raise
        return parts


class ValueState(AsyncValue[T]):
    """One value for the current key; made by `KeyedStore.state`, used by user functions."""

    __slots__ = ("_cursor", "_default", "_fixed", "_shown", "_slot", "_usual", "_values")

    def __init__(self, values: Values, default: Any, slot: int, cursor: Cursor) -> None:
        self._values = values
        self._default = default
        self._fixed = default is None or is_immutable(default)
        self._slot = slot
        self._cursor = cursor
        # The last type without parts that the codec is known to give back, and the last one found in a slot that
        # needs nothing done to it: the one comparison that most values pass by, on their way in and out.
        self._usual: type | None = None
        self._shown: type | None = None

    def value(self) -> T:
        """The value of the key, the descriptor's default if there is none."""
        value: Any = self._cursor.row.values[self._slot]
        return value if type(value) is self._shown else self._read(value)  # type: ignore[return-value] # what the codec gave

    def update(self, value: T | None) -> None:
        """Store a value; None clears. A mutable value is copied: later changes to the argument do not count.

        Raises:
            RecordError: the state's codec would not give the same value back.
        """
        row = self._cursor.row
        if type(value) is not self._usual:
            value = self._accept(value, row)
        row.values[self._slot] = value
        if not row.changed:
            self._cursor.mark(row)

    def reducer(self, combine: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
        """A function that takes in one value of the key and gives what all of them come to, for the caller to keep.

        The function raises what `combine` raises, and as `update` does.
        """
        cursor, slot = self._cursor, self._slot

        def take_in(value: Any) -> Any:
            row = cursor.row
            before = row.values[slot]
            if type(before) is not self._shown:
                before = self._read(before)
            after = value if before is None else combine(before, value)
            kind = type(after)
            if kind is self._usual or (kind is self._shown is tuple and is_immutable(after)):
                held = after
            else:
                held = self._accept(after, row)
            row.values[slot] = held
            if not row.changed:
                cursor.mark(row)
            return after if held is after else isolate(after)

        return take_in

    def clear(self) -> None:
        """Forget the value of the key."""
        row = self._cursor.row
        row.values[self._slot] = None
        if not row.changed:
            self._cursor.mark(row)

    def _read(self, stored: Any) -> Any:
        row = self._cursor.row
        if stored is None:
            if self._fixed:
                return self._default
            held: Any = Live(isolate(self._default))
        elif type(stored) is Raw:
            value = self._values.decode(stored.data)
            held = value if is_immutable(value) else Live(value)
        else:
            held = stored
        row.values[self._slot] = held
        if type(held) is not Live:
            self._shown = type(held)
            return held
        if not row.changed:
            self._cursor.mark(row)
        return held.value

    def _accept(self, value: Any, row: Row) -> Any:
        if value is None:
            return None
        held = row.values[self._slot]
        if type(held) is Live and held.value is value:
            return held
        accepted = self._values.accept(value, row.key)
        if accepted is not value:
            return Live(accepted)
        if type(value) in ATOMS:
            self._usual = type(value)
        return value


def pack_slots(parts: Sequence[bytes | None]) -> bytes | None:
    """A row's bytes from the bytes of its slots; None if all are empty."""
    if parts and parts[-1] is not None:
        return _ENCODER.encode(parts)
    used = len(parts)
    while used and parts[used - 1] is None:
        used -= 1
    return _ENCODER.encode(parts[:used]) if used else None


def unpack_slots(data: bytes) -> list[bytes | None]:
    """The bytes of the slots of a row."""
    return _DECODER.decode(data)


class _Heads(dict[int, bytes]):
    """What stands before the only slot of a row, by the length of the slot."""

    def __missing__(self, length: int) -> bytes:
        packed = _ENCODER.encode((bytes(length),))
        head = packed[: len(packed) - length]
        if length < _OFTEN:
            self[length] = head
        return head


_OFTEN: Final = 1_024
_UNENCODED: Final = frozenset({NoneType, Raw, Live})
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[bytes | None])
_HEADS: Final = _Heads()
UNBOUND: Final[Row] = _Unbound()
