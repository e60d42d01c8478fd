"""Flink's changelog-json format: a row and its kind.

Example:
    >>> from tidegate.types import Types
    >>> format = ChangelogJson(Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]))
    >>> format.encode(RowKind.DELETE, (1, "ada"))
    b'{"data":{"id":1,"name":"ada"},"op":"-D"}'
    >>> [(str(kind), row) for kind, row in format.decode(_)]
    [('-D', Row(id=1, name='ada'))]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidegate.cdc.formats.envelope import JsonChangeFormat
from tidegate.elements import RowKind
from tidegate.errors import RecordError

__all__ = ["ChangelogJson"]

_KINDS: Final = {kind.short: kind for kind in RowKind}


@dataclass(frozen=True)
class ChangelogJson(JsonChangeFormat):
    """Rows with their kinds: nothing is lost on the way through Kafka and back."""

    name = "changelog-json"

    def _changes(self, envelope: Any) -> Iterator[tuple[RowKind, Any]]:
        op = envelope["op"]
        if op not in _KINDS:
            raise RecordError(f"changelog-json: op {op!r} is unknown; expected one of {', '.join(_KINDS)}")
        yield _KINDS[op], self._row(envelope["data"])

    def _envelope(self, kind: RowKind, row: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"data": row, "op": kind.short}
