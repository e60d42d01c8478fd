"""Catalog of a Postgres database: tables with their columns and keys, and the types that are not built-in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegate.cdc.change import TableId
from tidegate.cdc.postgres.types import PgField, PgType

if TYPE_CHECKING:
    from tidegate.cdc.postgres._client import Session

__all__ = ["PgColumn", "PgTable", "read_key", "read_published", "read_tables", "read_types"]

_TABLES: Final = """
    select n.nspname, c.relname, c.oid::int8, c.relreplident::text, c.relispartition
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
    order by 1, 2
"""
_IS_KEY: Final = "case c.relreplident when 'i' then i.indisreplident else i.indisprimary end"
"""The key of a table is its replica identity if that is an index, since the log of a deletion contains it; otherwise the
primary key."""
_COLUMNS: Final = f"""
    select a.attrelid::int8, a.attname, a.atttypid::int8, a.atttypmod, a.attgenerated::text,
        coalesce(array_position(i.indkey::int2[], a.attnum) + 1, 0)
    from pg_catalog.pg_attribute a
    join pg_catalog.pg_class c on c.oid = a.attrelid
    left join pg_catalog.pg_index i on i.indrelid = c.oid and {_IS_KEY}
    where a.attrelid = any(%s::oid[]) and a.attnum > 0 and not a.attisdropped
    order by a.attrelid, a.attnum
"""
_TYPES: Final = """
    select t.oid::int8, t.typname, t.typtype::text,
        case when t.typcategory = 'A' then t.typelem::int8 else 0 end, t.typbasetype::int8, t.typtypmod, t.typrelid::int8
    from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
    where n.nspname <> 'pg_catalog' and (t.typtype <> 'c' or exists (
        select from pg_catalog.pg_class c where c.oid = t.typrelid and c.relkind = 'c'))
"""
_FIELDS: Final = """
    select attrelid::int8, attname, atttypid::int8, atttypmod from pg_catalog.pg_attribute
    where attrelid = any(%s::oid[]) and attnum > 0 and not attisdropped order by attrelid, attnum
"""

_KEY: Final = f"""
    select a.attname from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indrelid
    join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
    where i.indrelid = %s and {_IS_KEY} order by array_position(i.indkey::int2[], a.attnum)
"""
_PUBLISHED: Final = (
    "select schemaname, tablename, null, null from pg_catalog.pg_publication_tables where pubname = %s"
)
_PUBLISHED_15: Final = """
    select schemaname, tablename, attnames::text[], rowfilter from pg_catalog.pg_publication_tables where pubname = %s
"""
"""From Postgres 15 on publications have column lists and row filters."""


@dataclass(frozen=True, slots=True)
class PgColumn:
    """A column in the catalog."""

    name: str
    type_oid: int
    modifier: int
    generated: bool
    key: int
    """Its index in the key, from 1; 0 if it is not in the key."""


@dataclass(frozen=True, slots=True)
class PgTable:
    """A table in the catalog."""

    id: TableId
    identity: str
    """Replica identity: `d`efault, `n`othing, `f`ull or `i`ndex."""
    partition: bool
    columns: tuple[PgColumn, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key, in its order: the primary key, or the index that is the replica identity."""
        return tuple(column.name for column in sorted(self.columns, key=lambda each: each.key) if column.key)


def read_tables(session: Session, database: str) -> list[PgTable]:
    """All tables except system tables."""
    found = session.rows(_TABLES)
    columns: dict[int, list[PgColumn]] = {row[2]: [] for row in found}
    for oid, name, type_oid, modifier, generated, key in session.rows(_COLUMNS, list(columns)):
        columns[oid].append(PgColumn(name, type_oid, modifier, bool(generated), key))
    return [
        PgTable(TableId(database, schema, table), identity, partition, tuple(columns[oid]))
        for schema, table, oid, identity, partition in found
    ]


def read_key(session: Session, relation: int) -> tuple[str, ...]:
    """The columns of a table's key, in its order; none if the table has no key or does not exist any more."""
    return tuple(name for (name,) in session.rows(_KEY, relation))


def read_published(session: Session, publication: str) -> dict[tuple[str, str], tuple[list[str] | None, str]]:
    """The tables of a publication, each with its columns if they are listed, and its row filter."""
    query = _PUBLISHED_15 if session.version >= 150_000 else _PUBLISHED
    return {
        (schema, table): (columns, condition or "")
        for schema, table, columns, condition in session.rows(query, publication)
    }


def read_types(session: Session) -> dict[int, PgType]:
    """The types of extensions and users, by oid."""
    found = session.rows(_TYPES)
    fields: dict[int, list[PgField]] = {row[6]: [] for row in found if row[6]}
    for relation, name, type_oid, modifier in session.rows(_FIELDS, list(fields)):
        fields[relation].append(PgField(name, type_oid, modifier))
    return {
        oid: PgType(name, kind, element, (base, modifier), tuple(fields.get(relation, ())))
        for oid, name, kind, element, base, modifier, relation in found
    }
