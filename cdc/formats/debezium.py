"""Debezium's JSON format: an envelope with the row before, the row after and the operation.

Example:
    >>> from tidegate.types import Types
    >>> format = DebeziumJson(Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]))
    >>> message = b'{"before": {"id": 1, "name": "ada"}, "after": {"id": 1, "name": "eve"}, "op": "u"}'
    >>> [(str(kind), row) for kind, row in format.decode(message)]
    [('-U', Row(id=1, name='ada')), ('+U', Row(id=1, name='eve'))]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.cdc.formats.envelope import ADDED, JsonChangeFormat
from tidegate.changelog import ChangelogMode
from tidegate.elements import RowKind
from tidegate.errors import RecordError

__all__ = ["DebeziumJson"]


@dataclass(frozen=True)
class DebeziumJson(JsonChangeFormat):
    """Debezium's envelopes, with or without their schema.

    Args:
        row: The type of the rows.
        upsert: Whether updates come without the row before, as from tables with replica identity DEFAULT.
    """

    upsert: bool = False

    name = "debezium-json"

    @property
    def changelog_mode(self) -> ChangelogMode:
        """Without -U if updates come without the row before."""
        return ChangelogMode.upsert() if self.upsert else ChangelogMode.all()

    def _changes(self, envelope: Any) -> Iterator[tuple[RowKind, Any]]:
        payload = envelope["payload"] if "payload" in envelope and "op" not in envelope else envelope
        op, before, after = payload["op"], payload.get("before"), payload.get("after")
        if op in ("c", "r"):
            yield RowKind.INSERT, self._row(after)
        elif op == "u":
            if not self.upsert:
                yield RowKind.UPDATE_BEFORE, self._row(self._complete(before, "an update"))
            yield RowKind.UPDATE_AFTER, self._row(after)
        elif op == "d":
            yield RowKind.DELETE, self._row(self._complete(before, "a deletion"))
        elif op == "t":
            raise RecordError(
                "debezium-json: a TRUNCATE cannot be represented by rows; leave such messages out, or fail"
            )
        elif op != "m":
            raise RecordError(f"debezium-json: operation {op!r} is unknown; expected c, r, u, d or m")

    def _complete(self, before: Any, what: str) -> Any:
        if before is None:
            raise RecordError(
                f"debezium-json: {what} comes without the row before; set replica identity FULL for the table, or upsert=True"
            )
        return before

    def _envelope(self, kind: RowKind, row: Mapping[str, Any]) -> Mapping[str, Any]:
        added = kind in ADDED
        return {
            "before": None if added else row,
            "after": row if added else None,
            "op": "c" if added else "d",
        }
