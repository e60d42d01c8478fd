"""Maxwell's JSON format: the row in `data`, and in `old` the values that an update replaced.

Example:
    >>> from tidegate.types import Types
    >>> format = MaxwellJson(Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]))
    >>> message = b'{"type": "update", "data": {"id": 1, "name": "eve"}, "old": {"name": "ada"}}'
    >>> [(str(kind), row) for kind, row in format.decode(message)]
    [('-U', Row(id=1, name='ada')), ('+U', Row(id=1, name='eve'))]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidegate.cdc.formats.envelope import ADDED, JsonChangeFormat
from tidegate.elements import RowKind
from tidegate.errors import RecordError

__all__ = ["MaxwellJson"]

_KINDS: Final = {
    "insert": RowKind.INSERT,
    "bootstrap-insert": RowKind.INSERT,
    "delete": RowKind.DELETE,
}
_WITHOUT_ROWS: Final = frozenset(
    {"bootstrap-start", "bootstrap-complete"}
    | {f"{statement}-{what}" for statement in ("table", "database") for what in ("create", "alter", "drop")}
)


@dataclass(frozen=True)
class MaxwellJson(JsonChangeFormat):
    """Maxwell's messages. Statements that change a table's definition change no row."""

    name = "maxwell-json"

    def _changes(self, envelope: Any) -> Iterator[tuple[RowKind, Any]]:
        kind = envelope["type"]
        if kind == "update":
            new = envelope["data"]
            yield RowKind.UPDATE_BEFORE, self._row({**new, **envelope["old"]})
            yield RowKind.UPDATE_AFTER, self._row(new)
        elif kind in _KINDS:
            yield _KINDS[kind], self._row(envelope["data"])
        elif kind not in _WITHOUT_ROWS:
            raise RecordError(f"maxwell-json: type {kind!r} is unknown; expected insert, update or delete")

    def _envelope(self, kind: RowKind, row: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"data": row, "type": "insert" if kind in ADDED else "delete"}
