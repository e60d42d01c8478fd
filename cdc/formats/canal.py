"""Canal's JSON format: rows in `data`, and in `old` the values that an update replaced.

Example:
    >>> from tidegate.types import Types
    >>> format = CanalJson(Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]))
    >>> message = b'{"data": [{"id": "1", "name": "eve"}], "old": [{"name": "ada"}], "type": "UPDATE", "table": "users"}'
    >>> [(str(kind), row) for kind, row in format.decode(message)]
    [('-U', Row(id=1, name='ada')), ('+U', Row(id=1, name='eve'))]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidegate.cdc.formats.envelope import ADDED, JsonChangeFormat
from tidegate.elements import RowKind
from tidegate.errors import RecordError

__all__ = ["CanalJson"]

_KINDS: Final = {"INSERT": RowKind.INSERT, "DELETE": RowKind.DELETE}


@dataclass(frozen=True)
class CanalJson(JsonChangeFormat):
    """Canal's messages. Statements that change a table's definition change no row.

    Args:
        row: The type of the rows.
        database: A regular expression for the names of databases; others are skipped. None reads all.
        table: The same for tables.
    """

    database: str | None = None
    table: str | None = None

    name = "canal-json"

    def _changes(self, envelope: Any) -> Iterator[tuple[RowKind, Any]]:
        if not (
            _taken(self.database, envelope.get("database")) and _taken(self.table, envelope.get("table"))
        ):
            return
        kind, rows = envelope["type"], envelope.get("data")
        if envelope.get("isDdl") or kind in (
            "CREATE",
            "ALTER",
            "TRUNCATE",
            "ERASE",
            "RENAME",
            "CINDEX",
            "DINDEX",
            "QUERY",
        ):
            return
        if kind == "UPDATE":
            for new, old in zip(rows, envelope["old"], strict=True):
                yield RowKind.UPDATE_BEFORE, self._row({**new, **old})
                yield RowKind.UPDATE_AFTER, self._row(new)
        elif kind in _KINDS:
            for row in rows:
                yield _KINDS[kind], self._row(row)
        else:
            raise RecordError(f"canal-json: type {kind!r} is unknown; expected INSERT, UPDATE or DELETE")

    def _envelope(self, kind: RowKind, row: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"data": [row], "type": "INSERT" if kind in ADDED else "DELETE"}


def _taken(pattern: str | None, name: Any) -> bool:
    return pattern is None or (isinstance(name, str) and re.fullmatch(pattern, name) is not None)
