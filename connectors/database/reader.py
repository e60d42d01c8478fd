"""Reader of a database source: one cursor per range, in a separate thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidegate.connectors.base import Fetched, Fetcher
from tidegate.connectors.database.session import Session
from tidegate.connectors.database.split import TableSplit
from tidegate.connectors.database.statements import names_of, qualified, quoted
from tidegate.errors import ConfigError, RecordError
from tidegate.ids import SplitId

if TYPE_CHECKING:
    from tidegate.connectors.database.source import DatabaseSource

__all__ = ["TableFetcher"]

_OPEN: Final = 2
"""The number of ranges read at the same time, so that one that waits to be polled does not block the next."""
_WAIT_S: Final = 0.01
_PATIENCE: Final = 100
"""How often a fetch waits for an open range, which may be paused, before it reads another one."""


class _Cursor(NamedTuple):
    session: Session
    rows: Iterator[list[tuple[Any, ...]]]
    offset: int


class TableFetcher(Fetcher[TableSplit]):
    """Reads ranges by cursors of the database, so that no range is loaded into memory as a whole."""

    def __init__(self, source: DatabaseSource) -> None:
        self._source = source
        self._decode = source.decoder()
        self._open: dict[SplitId, _Cursor] = {}
        self._woken = threading.Event()
        self._waited = 0
        self._columns: str | None = None
        self._order = ""

    def fetch(self, splits: Sequence[TableSplit]) -> Iterator[Fetched[TableSplit]]:
        """The next rows of an open range, or of a new one."""
        split = self._next(splits)
        if split is None:
            self._woken.wait(_WAIT_S)
            self._woken.clear()
            return
        cursor = self._cursor(split)
        rows = next(cursor.rows, None)
        if rows is None:
            self._drop(split.id)
            yield Fetched(split, [], (), None)
            return
        end = split.offset + len(rows)
        self._open[split.id] = cursor._replace(offset=end)
        yield Fetched(split, self._decoded(split, rows), range(split.offset, end), split.after(end - 1))

    def wake_up(self) -> None:
        """Make `fetch` return soon."""
        self._woken.set()

    def close(self) -> None:
        """Disconnect."""
        for name in list(self._open):
            self._drop(name)

    def _next(self, splits: Sequence[TableSplit]) -> TableSplit | None:
        found = next((each for each in splits if each.id in self._open), None)
        if found is not None or not splits:
            self._waited = 0
            return found
        if len(self._open) < _OPEN:
            return splits[0]
        self._waited += 1
        if self._waited < _PATIENCE:
            return None
        self._drop(next(iter(self._open)))
        return splits[0]

    def _cursor(self, split: TableSplit) -> _Cursor:
        known = self._open.get(split.id)
        if known is not None and known.offset == split.offset:
            return known
        self._drop(split.id)
        session = self._source.database.connect()
        try:
            query, values = self._query(session, split)
        except BaseException:
            session.close()
            raise
        rows = session.stream(query, values, self._source.fetch_size)
        made = self._open[split.id] = _Cursor(session, rows, split.offset)
        return made

    def _query(self, session: Session, split: TableSplit) -> tuple[str, list[Any]]:
        source, table = self._source, qualified(self._source.table)
        if self._columns is None:
            self._columns, self._order = _layout(session, source)
        where, values = (
            [text for text, _ in source.conditions],
            [value for _, each in source.conditions for value in each],
        )
        if source.partition_column is not None:
            name = quoted(source.partition_column)
            if split.empty:
                where.append(f"{name} IS NULL")
            else:
                where.append(f"{name} >= ? AND {name} < ?")
                values += [split.low, split.high]
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        limit = -1 if session.dialect == "sqlite" else "ALL"
        some = f" LIMIT {limit if source.limit is None else max(0, source.limit - split.offset)} OFFSET {split.offset}"
        return f"SELECT {self._columns} FROM {table}{condition} ORDER BY {self._order}{some}", values

    def _decoded(self, split: TableSplit, rows: list[tuple[Any, ...]]) -> list[Any]:
        if not self._source.columns and self._source.columns is not None:
            return [()] * len(rows)
        if self._decode is None:
            return list(rows)
        values: list[Any] = []
        try:
            values.extend(map(self._decode, rows))  # its length is the index of the row that failed
        except RecordError as error:
            raise RecordError(
                f"table {self._source.table}: row {split.offset + len(values)} of range {split.id!r} cannot be read: {error}"
            ) from error
        return values

    def _drop(self, name: SplitId) -> None:
        cursor = self._open.pop(name, None)
        if cursor is not None:
            cursor.rows.close()  # type: ignore[attr-defined]  # a generator
            cursor.session.close()


def _layout(session: Session, source: DatabaseSource) -> tuple[str, str]:
    """The columns to read, and a deterministic order of rows."""
    info = session.catalog.table(qualified(source.table), source.table)
    known = [column.name for column in info.columns]
    columns = known if source.columns is None else source.columns
    for name in columns:
        if name not in known:
            raise ConfigError(
                f"column {name!r} is not in table {source.table} in {session.shown}; got {', '.join(known)}; correct the columns"
            )
    order = list(info.primary) or known
    if source.partition_column is not None and source.partition_column in order:
        order = [source.partition_column, *(name for name in order if name != source.partition_column)]
    # A query needs at least one column; it is dropped from rows without columns.
    return names_of(columns) or "1", names_of(order)
