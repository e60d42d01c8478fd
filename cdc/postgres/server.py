"""Postgres server for the enumerator: publication, slot, tables, and exported snapshots for readers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NoReturn

from tidegate.cdc.postgres._client import Session, address, create_slot
from tidegate.cdc.postgres.catalog import PgTable, read_published, read_tables
from tidegate.cdc.postgres.database import Database
from tidegate.cdc.postgres.enumerator import Start
from tidegate.cdc.postgres.literals import identifier, literal
from tidegate.cdc.postgres.pgoutput import format_lsn, parse_lsn
from tidegate.cdc.postgres.split import KeyText, TableLayout
from tidegate.cdc.postgres.visibility import TransactionView
from tidegate.clock import SYSTEM_CLOCK, Clock
from tidegate.errors import ConfigError, UnavailableError

__all__ = ["ExportedSnapshot", "Server", "claim_of", "free_slot", "query"]

_OLDEST: Final = 130_000
_SLOT: Final = (
    "select active_pid, wal_status, confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"
)
_PUBLISHES: Final = "select pubinsert, pubupdate, pubdelete from pg_publication where pubname = %s"
_POSITION: Final = "select pg_current_wal_insert_lsn()::text"
_ACTIVE: Final = """
    select s.active_pid, a.application_name from pg_replication_slots s join pg_stat_activity a on a.pid = s.active_pid
    where s.slot_name = %s
"""
_LOOK_S: Final = 0.02
_NO_LOG: Final = Start("", 0, TransactionView(0, 0, ()))
"""The start of a source that reads no log: it has no slot."""


@dataclass(frozen=True, slots=True)
class ExportedSnapshot:
    """An exported snapshot that other sessions can import until it is closed."""

    name: str
    view: TransactionView
    session: Session

    def close(self) -> None:
        """End it; sessions that have imported it keep it."""
        self.session.close()


class Server:
    """A database and one of its slots.

    Args:
        database: The database. Its publication is created at the first start if it does not exist.
        slot: The name of the slot.
        claim: The name of a second slot, without a log, that marks the owner of the first one until there is a checkpoint; empty if
            no slot may be created.
    """

    def __init__(self, database: Database, slot: str, claim: str) -> None:
        self._database = database
        self._slot = slot
        self._claim = claim

    def begin(self) -> tuple[Start, list[TableLayout]]:
        """Create publication and slot; returns the start of the log, and the tables to load.

        Raises:
            ConfigError: the database does not meet the requirements; the message has the remedy.
            UnavailableError: the server did not answer.
        """
        found = self._matching()
        if self._database.options.start == "initial-only":
            return _NO_LOG, self._readable(self._layout(table, None, "") for table in found)
        self._check_server()
        # A slot reads the catalog as of its position, so it does not see a publication that is created later.
        layouts = self._published(found)
        layouts = [] if self._database.options.start == "latest" else self._readable(layouts)
        self._claim_slot()
        lsn, view = create_slot(self._database.connect, self._slot, self._database.timeout_s)
        return Start(self._slot, lsn, view, self._claim), layouts

    def resume(self, slot: str, position: int) -> None:
        """Check that a slot still has the log from a position on.

        Raises:
            ConfigError: it does not have it; rows would be missing.
        """
        if not slot:
            return
        row = self._database.session.row(_SLOT, slot)
        if row is None:
            self._refuse(
                f"slot {slot!r} does not exist any more",
                "changes since the checkpoint are lost; start with a first load",
            )
        _, wal_status, confirmed = row
        if wal_status == "lost":
            self._refuse(
                f"slot {slot!r} is lost, because max_slot_wal_keep_size was exceeded",
                "changes since the checkpoint are lost; drop the slot and start with a first load",
            )
        if confirmed is not None and parse_lsn(confirmed) > position:
            self._refuse(
                f"slot {slot!r} is at {confirmed}, which is ahead of the checkpoint at {format_lsn(position)}",
                "the changes between are gone; restore a newer checkpoint, or drop the slot and start with a first load",
            )

    def plan(self, exported: ExportedSnapshot, layout: TableLayout, above: KeyText | None) -> KeyText | None:
        """The last key of the next chunk; None if the chunk ends with the table."""
        if layout.by_text:
            return None  # one chunk: each would sort the whole table, since its index has another order
        columns = ", ".join(_text(name) for name in layout.key)
        row = exported.session.row(
            f"select {columns} from {_name(layout)} {where(layout, above, None)} order by {order(layout)} "
            f"offset {self._database.options.chunk_rows - 1} limit 1"
        )
        return None if row is None else tuple(row)

    def export(self, start: TransactionView, layout: TableLayout) -> ExportedSnapshot | None:
        """A snapshot that sees all transactions that the slot does not send; None if one of these transactions is not visible yet.

        The table is locked against commands that snapshots do not protect from: it would look empty after TRUNCATE or a change
        of a column's type. None also if the lock is not available.
        """
        session = Session(self._database.connect)
        try:
            session.execute("begin isolation level repeatable read read only")
            if not session.lock(_name(layout)):
                session.close()
                return None
            ((text, name),) = session.rows("select pg_current_snapshot()::text, pg_export_snapshot()")
            view = TransactionView.parse(text)
            if any(map(start.contains, view.in_progress)):
                session.close()
                return None
        except BaseException:
            session.close()
            raise
        return ExportedSnapshot(name, view, session)

    def position(self) -> int:
        """The current end of the log."""
        ((text,),) = self._database.session.rows(_POSITION)
        return parse_lsn(text)

    def close(self) -> None:
        """Disconnect."""
        self._database.close()

    def _check_server(self) -> None:
        session = self._database.session
        if session.version < _OLDEST:
            self._refuse(
                f"the server has version {session.version // 10_000}", "Postgres 13 or newer is needed"
            )
        ((level,),) = session.rows("show wal_level")
        if level != "logical":
            self._refuse(f"wal_level is {level!r}", "set wal_level = logical and restart the server")
        ((allowed,),) = session.rows(
            "select rolreplication or rolsuper from pg_roles where rolname = current_user"
        )
        if not allowed:
            self._refuse("the user may not replicate", "alter role ... with replication")

    def _matching(self) -> list[PgTable]:
        database = self._database
        chosen = [
            table
            for table in read_tables(database.session, database.name)
            if not table.partition and database.captures(table.id.schema, table.id.table)
        ]
        for each in database.tables:
            if not any(re.fullmatch(each, f"{table.id.schema}.{table.id.table}") for table in chosen):
                self._refuse(
                    f"no table matches {each!r}",
                    "write names as schema.table; patterns are regular expressions",
                )
        for table in chosen:
            self._check_table(table)
        return chosen

    def _check_table(self, table: PgTable) -> None:
        if not table.key and self._database.options.start != "latest":
            self._refuse(
                f"table {table.id} has no primary key, which its first load needs",
                "add one, or set start to 'latest'",
            )
        if self._database.needs_before and table.identity != "f":
            self._refuse(
                f"table {table.id} does not log the row before a change, which the records need",
                f"alter table {_quoted(table)} replica identity full, or read the changes as upserts",
            )
        if table.identity == "n":
            self._refuse(
                f"table {table.id} has replica identity NOTHING, so updates of it fail",
                f"alter table {_quoted(table)} replica identity default",
            )

    def _published(self, tables: Sequence[PgTable]) -> list[TableLayout]:
        session = self._database.session
        made = session.row(_PUBLISHES, self._database.publication)
        if made is not None and not all(made):
            self._refuse(
                f"publication {self._database.publication!r} leaves out insertions, updates or deletions",
                f"alter publication {identifier(self._database.publication)} set (publish = 'insert, update, delete, truncate')",
            )
        if made is None:
            names = ", ".join(_quoted(table) for table in tables)
            session.execute(
                f"create publication {identifier(self._database.publication)} for table {names} with (publish_via_partition_root)"
            )
        published = read_published(session, self._database.publication)
        return [self._layout(table, *self._entry(table, published)) for table in tables]

    def _entry(
        self, table: PgTable, published: Mapping[tuple[str, str], tuple[list[str] | None, str]]
    ) -> tuple[list[str] | None, str]:
        try:
            return published[table.id.schema, table.id.table]
        except KeyError:
            self._refuse(
                f"publication {self._database.publication!r} does not have table {table.id}",
                f"alter publication {identifier(self._database.publication)} add table {_quoted(table)}",
            )

    def _layout(self, table: PgTable, published: list[str] | None, condition: str) -> TableLayout:
        columns = [
            column
            for column in table.columns
            if (not column.generated if published is None else column.name in published)
        ]
        by_text: list[str] = []
        for column in filter(lambda column: column.key, table.columns):
            if column not in columns:
                self._refuse(
                    f"publication {self._database.publication!r} leaves out key column {column.name!r} of table {table.id}",
                    "add it to the publication's columns of the table",
                )
            key_order = self._database.types.key_order(column.type_oid, column.modifier)
            if key_order is None:
                self._refuse(
                    f"key column {column.name!r} of table {table.id} is an array or a composite value, which cannot be ordered",
                    "use a table with another key, or set its replica identity to an index over other columns",
                )
            by_text += [column.name] if key_order == "texts" else []
        listed = tuple((column.name, column.type_oid, column.modifier) for column in columns)
        return TableLayout(table.id, listed, table.key, condition, tuple(by_text))

    def _readable(self, layouts: Iterable[TableLayout]) -> list[TableLayout]:
        """Check that all tables can be read, and return them."""
        checked = list(layouts)
        try:
            for layout in checked:
                self._database.session.rows(f"{query(layout, None, None)} limit 0")
        except ConfigError as error:
            raise ConfigError(f"postgres source on {address(self._database.connect)}: {error}") from error
        return checked

    def _claim_slot(self) -> None:
        """Claim the slot: drop our own slot of a start that failed before its first checkpoint; refuse other slots."""
        session = self._database.session
        if not self._claim:
            self._refuse(
                f"slot {self._slot!r} does not exist yet", "the first start of the pipeline creates it"
            )
        claimed = session.row(_SLOT, self._claim) is not None
        if session.row(_SLOT, self._slot) is not None:
            if not claimed and self._database.options.slot_exists == "refuse":
                self._refuse(
                    f"slot {self._slot!r} exists already, and this pipeline did not create it",
                    "use another name; or, if it is yours, drop it: select pg_drop_replication_slot(...), or set slot_exists to "
                    "'recreate'",
                )
            free_slot(session, self._slot, self._claim, SYSTEM_CLOCK, self._database.timeout_s)
            session.execute("select pg_drop_replication_slot(%s)", self._slot)
        if not claimed:
            session.execute("select pg_create_physical_replication_slot(%s)", self._claim)

    def _refuse(self, found: str, remedy: str) -> NoReturn:
        raise ConfigError(f"postgres source on {address(self._database.connect)}: {found}; {remedy}")


def claim_of(slot: str, owner: str) -> str:
    """The name of an owner's claim of a slot.

    Example:
        >>> claim_of("orders", "shop file:///state source")
        'orders_e51b92f0e4e2'
    """
    return f"{slot[:50]}_{sha256(owner.encode()).hexdigest()[:12]}"


def free_slot(session: Session, slot: str, reader: str, clock: Clock, timeout_s: float) -> None:
    """Terminate the connection of our own dead reader if the server has not detected it yet.

    Args:
        session: The session for queries.
        slot: The slot.
        reader: The application name of our readers.
        clock: The clock for waits.
        timeout_s: How long the connection may take to end.

    Raises:
        UnavailableError: another program reads the slot.
    """
    deadline = clock.monotonic() + timeout_s
    while (row := session.row(_ACTIVE, slot)) is not None:
        pid, application = row
        if application != reader:
            raise UnavailableError(
                f"postgres slot {slot!r} is read by process {pid} ({application or 'without a name'}); a slot has one reader: stop "
                "the other program"
            )
        if clock.monotonic() > deadline:
            raise UnavailableError(
                f"postgres slot {slot!r} is still read by process {pid}, which does not end"
            )
        session.row("select pg_terminate_backend(%s)", pid)
        clock.sleep(_LOOK_S)


def where(layout: TableLayout, above: KeyText | None, upto: KeyText | None) -> str:
    """The condition of a range, with the row filter."""
    conditions = [f"({layout.condition})"] if layout.condition else []
    key = f"({order(layout)})"
    conditions += [f"{key} > {_tuple(above)}"] if above is not None else []
    conditions += [f"{key} <= {_tuple(upto)}"] if upto is not None else []
    return f"where {' and '.join(conditions)}" if conditions else ""


def order(layout: TableLayout) -> str:
    """The key columns, compared as Python compares their values."""
    return ", ".join(
        _text(name) + ' collate "C"' if name in layout.by_text else identifier(name) for name in layout.key
    )


def query(layout: TableLayout, above: KeyText | None, upto: KeyText | None) -> str:
    """The rows of a range in the order of their keys."""
    columns = ", ".join(identifier(name) for name, _, _ in layout.columns)
    return f"select {columns} from {_name(layout)} {where(layout, above, upto)} order by {order(layout)}"


def _text(name: str) -> str:
    """The text of a column in the form of rows; a cast to text differs for some types, such as inet."""
    return f"format('%s', {identifier(name)})"


def _tuple(key: KeyText) -> str:
    return f"({', '.join(map(literal, key))})"


def _name(layout: TableLayout) -> str:
    return identifier(layout.table.schema, layout.table.table)


def _quoted(table: PgTable) -> str:
    return identifier(table.id.schema, table.id.table)
