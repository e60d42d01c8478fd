"""Changes as JSON texts in Debezium's envelope, for programs that expect this format.

Example:
    >>> from tidegate.cdc.change import TableId
    >>> from tidegate.logical_types import DataTypes
    >>> users = CapturedTable(TableId("shop", "public", "users"), ("id",), ("id",), (DataTypes.INT(),))
    >>> origin = ChangeOrigin((23, 0), 1_700_000_000_000, "731", {"connector": "postgresql"})
    >>> print(DebeziumRecords().changed(users, [(RowKind.INSERT, (7,))], origin)[0][0])
    {"before":null,"after":{"id":7},"source":{"connector":"postgresql","db":"shop","schema":"public","table":"users","txId":"731","ts_ms":1700000000000,"snapshot":"false"},"op":"c","ts_ms":1700000000000,"transaction":null}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tidegate.cdc.change import ChangeEvent
from tidegate.cdc.records import CapturedTable, ChangeDeserializer, ChangeOrigin, Events, RowsOfChange
from tidegate.changelog import ChangelogMode
from tidegate.elements import RowKind
from tidegate.unchanged import UNCHANGED

__all__ = ["DebeziumRecords"]

_UNAVAILABLE: Final = "__debezium_unavailable_value"
"""Debezium's placeholder for a value that the log leaves out."""

_encode = msgspec.json.Encoder(decimal_format="number").encode


class DebeziumRecords(ChangeDeserializer):
    """Envelopes without their schema; decimals are numbers, times are ISO texts, bytes are base64."""

    def __init__(self) -> None:
        self._events = Events()

    @property
    def changelog_mode(self) -> ChangelogMode:
        """Insertions only: every record is an event."""
        return ChangelogMode.insert_only()

    def loaded(self, table: CapturedTable, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """READ envelopes."""
        return [_text(event) for event in self._events.loaded(table, rows)]

    def changed(
        self, table: CapturedTable, rows: RowsOfChange, origin: ChangeOrigin
    ) -> list[tuple[Any, RowKind]]:
        """One envelope; two if the key changed."""
        return [(_text(event), kind) for event, kind in self._events.changed(table, rows, origin)]

    def truncated(self, table: CapturedTable, origin: ChangeOrigin) -> list[tuple[Any, RowKind]]:
        """A TRUNCATE envelope."""
        return [(_text(event), kind) for event, kind in self._events.truncated(table, origin)]


def _text(event: ChangeEvent) -> str:
    source = {
        **event.source,
        "db": event.table.database,
        "schema": event.table.schema,
        "table": event.table.table,
        "txId": event.transaction or None,
        "ts_ms": event.ts_ms,
        "snapshot": "false" if event.position else "true",
    }
    envelope = {
        "before": _image(event.before),
        "after": _image(event.after),
        "source": source,
        "op": event.op.value,
        "ts_ms": event.ts_ms,
        "transaction": None,
    }
    return _encode(envelope).decode()


def _image(row: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if row is None:
        return None
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    """NaN and infinity as texts: JSON has no numbers for them, and null would lose them."""
    if value is UNCHANGED:
        return _UNAVAILABLE
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
