"""SQL statements that apply staged rows to a table, in the SQL that Postgres and SQLite share.

Staged rows are in a relation with four columns before those of the table: `tg_work` (the piece of work), `tg_chunk`
(chunks of a piece are applied in order, and a key occurs once in a chunk), `tg_kind` (0 writes the row, 1 deletes it) and
`tg_unchanged` (the indexes of columns that the update does not change; NULL if it changes all). `?` is a parameter.

Example:
    >>> print(Shape("public.orders", ("id", "paid"), ("id",)).delete("stage"))
    DELETE FROM "public"."orders" WHERE ("id") IN (SELECT "id" FROM stage WHERE tg_work = ? AND tg_chunk = ? AND tg_kind = 1)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.connectors.database.session import Session

__all__ = ["HEAD", "Chunk", "Shape", "apply", "names_of", "qualified", "quoted"]

HEAD = ("tg_work", "tg_chunk", "tg_kind", "tg_unchanged")
"""The columns of a staging table before those of the table."""

_PICKED = "tg_work = ? AND tg_chunk = ?"
_REFUSED = frozenset("%?\0")


class Chunk(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which statements a chunk needs."""

    deletes: bool = False
    unchanged: tuple[str, ...] = ()
    """The different values of `tg_unchanged`."""


class Shape(msgspec.Struct, frozen=True, omit_defaults=True):
    """The target of a sink: a table, its columns, the key of an upsert, the columns of a position.

    A committable contains it, since decided rows go to the table that they were written for.
    """

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    position: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[int, ...]:
        """The indexes of the key columns."""
        return tuple(map(self.columns.index, self.key))

    def append(self, stage: str) -> str:
        """Insert all rows of a piece of work."""
        columns = names_of(self.columns)
        return f"INSERT INTO {self._target} ({columns}) SELECT {columns} FROM {stage} WHERE tg_work = ?"

    def delete(self, stage: str) -> str:
        """Delete the rows whose keys a chunk deletes; with positions, only those that are not newer."""
        key = names_of(self.key)
        if not self.position:
            picked = f"SELECT {key} FROM {stage} WHERE {_PICKED} AND tg_kind = 1"
            return f"DELETE FROM {self._target} WHERE ({key}) IN ({picked})"
        newer = f"{self._position('t')} <= {self._position('s')}"
        return (
            f"DELETE FROM {self._target} AS t WHERE EXISTS (SELECT 1 FROM {stage} AS s WHERE s.tg_work = ? AND s.tg_chunk = ? "
            f"AND s.tg_kind = 1 AND {self._same('t', 's')} AND {newer})"
        )

    def upsert(self, stage: str, gone: str | None = None) -> str:
        """Write the whole rows of a chunk; with positions, only those that are not older than the existing or deleted row."""
        columns, changed = names_of(self.columns), self._others()
        sets = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in changed)
        then = f"UPDATE SET {sets}" if sets else "NOTHING"
        if sets and self.position:
            then += f" WHERE {self._position('t')} <= {self._position('excluded')}"
        where = "s.tg_work = ? AND s.tg_chunk = ? AND s.tg_kind = 0 AND s.tg_unchanged IS NULL" + self._alive(
            gone
        )
        return (
            f"INSERT INTO {self._target} AS t ({columns}) SELECT {columns} FROM {stage} AS s WHERE {where} "
            f"ORDER BY {names_of(self.key)} ON CONFLICT ({names_of(self.key)}) DO {then}"
        )

    def update(self, stage: str, unchanged: str, gone: str | None = None) -> str:
        """Update the rows of a chunk that do not change these columns."""
        left = {self.columns[int(index)] for index in unchanged.split(",")}
        changed = [name for name in self._others() if name not in left] or list(self.key)
        sets = ", ".join(f"{quoted(name)} = s.{quoted(name)}" for name in changed)
        where = f"s.tg_work = ? AND s.tg_chunk = ? AND s.tg_unchanged = ? AND {self._same('t', 's')}"
        if self.position:
            where += f" AND {self._position('t')} <= {self._position('s')}" + self._alive(gone)
        return f"UPDATE {self._target} AS t SET {sets} FROM {stage} AS s WHERE {where}"

    def orphans(self, stage: str, gone: str | None = None) -> str:
        """The key of a partial update whose row does not exist and was not deleted later."""
        key = names_of(self.key, "s")
        there = f"SELECT 1 FROM {self._target} AS t WHERE {self._same('t', 's')}"
        return (
            f"SELECT {key} FROM {stage} AS s WHERE s.tg_work = ? AND s.tg_chunk = ? AND s.tg_kind = 0 AND "
            f"s.tg_unchanged IS NOT NULL AND NOT EXISTS ({there}){self._alive(gone)} LIMIT 1"
        )

    def bury(self, stage: str, gone: str) -> str:
        """Store the positions of deleted keys, so that an older write does not insert them again."""
        kept = names_of((*self.key, *self.position))
        sets = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in self.position)
        return (
            f"INSERT INTO {gone} AS g (tg_work, {kept}) SELECT tg_work, {kept} FROM {stage} AS s WHERE s.tg_work = ? AND "
            f"s.tg_chunk = ? AND s.tg_kind = 1 ON CONFLICT ({names_of(self.key)}) DO UPDATE SET tg_work = excluded.tg_work, "
            f"{sets} WHERE {self._position('g')} <= {self._position('excluded')}"
        )

    def _others(self) -> list[str]:
        return [name for name in self.columns if name not in self.key]

    def _same(self, left: str, right: str) -> str:
        return " AND ".join(f"{left}.{quoted(name)} = {right}.{quoted(name)}" for name in self.key)

    def _position(self, of: str) -> str:
        return f"({names_of(self.position, of)})"

    def _alive(self, gone: str | None) -> str:
        if gone is None:
            return ""
        return (
            f" AND NOT EXISTS (SELECT 1 FROM {gone} AS g WHERE {self._same('g', 's')} AND "
            f"{self._position('g')} > {self._position('s')})"
        )

    @property
    def _target(self) -> str:
        return qualified(self.table)


def apply(
    session: Session,
    shape: Shape,
    stage: str,
    work: int,
    chunks: Iterable[tuple[int, Chunk]],
    gone: str | None = None,
) -> None:
    """Apply chunks of a piece of work, in an open transaction.

    Raises:
        ConfigError: the row of a partial update does not exist.
    """
    for number, chunk in chunks:
        at = (work, number)
        if chunk.deletes:
            if gone is not None:
                session.execute(shape.bury(stage, gone), at)
            session.execute(shape.delete(stage), at)
        session.execute(shape.upsert(stage, gone), at)
        for unchanged in chunk.unchanged:
            session.execute(shape.update(stage, unchanged, gone), (*at, unchanged))
        if chunk.unchanged and (orphan := session.execute(shape.orphans(stage, gone), at)):
            key = dict(zip(shape.key, orphan[0], strict=True))
            raise ConfigError(
                f"table {shape.table} in {session.shown}: an update of the row with key {key} lacks values of columns, and "
                "the row does not exist; send whole rows (in Postgres: REPLICA IDENTITY FULL on the source's table), or load the row"
            )


def quoted(name: str) -> str:
    """A quoted name for SQL.

    Raises:
        ConfigError: it is empty or has a character that statements with parameters cannot hold.
    """
    if not name or _REFUSED & set(name):
        raise ConfigError(
            f"the name {name!r} cannot be used in a statement; expected one or more characters, none of % and ?"
        )
    return '"' + name.replace('"', '""') + '"'


def qualified(table: str) -> str:
    """The quoted name of a table, optionally with a schema: `public.orders`."""
    return ".".join(map(quoted, table.split(".")))


def names_of(columns: Iterable[str], of: str | None = None) -> str:
    """Column names as a list."""
    front = "" if of is None else f"{of}."
    return ", ".join(front + quoted(name) for name in columns)
