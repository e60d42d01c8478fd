"""Bookkeeping tables of the sink in the target database: the owner of each operator, and committed work.

| table | holds |
|---|---|
| `tidegate_claims` | a row for each operator of each pipeline: the location of its checkpoints |
| `tidegate_fences` | a row for each operator: the newest owner's fencing term, and how often writers were fenced; writers lock it |
| `tidegate_work` | a row for each prepared piece of work: its name, and whether it is committed |
| `tidegate_stage_<table>_<hash>` | rows of prepared work, which are not visible in the table; the hash is that of its columns |
| `tidegate_gone_<table>_<hash>` | positions of deleted keys, for writes by position |

A row of `tidegate_work` and the data rows of this work become visible, or are deleted, in one transaction: so the row proves
their outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import xxhash

from tidegate.clock import Clock
from tidegate.connectors.database.session import Session, TableInfo
from tidegate.connectors.database.statements import names_of, qualified, quoted
from tidegate.errors import ConfigError, FencedError
from tidegate.ids import FencingTerm
from tidegate.twophase.naming import WorkName

__all__ = ["Bookkeeping", "Fence", "Ownership", "Piece", "SinkTables", "WorkTable"]

_CLAIMS: Final = "tidegate_claims"
_FENCES: Final = "tidegate_fences"
_WORK: Final = "tidegate_work"
_LONGEST: Final = 40
"""The length of a table's name within the name of its staging table; Postgres truncates names at 63 bytes."""
_HORIZON: Final = 1_000
"""The number of checkpoints for which committed work is kept; commits are retried until settled, in order."""
_PRUNE: Final = 64
"""The number of checkpoints between two deletions of old rows."""


class Fence(NamedTuple):
    """The fence that a writer reads when it opens, and that must be unchanged whenever it prepares work."""

    term: int
    generation: int


class Piece(NamedTuple):
    """Prepared work in the database."""

    id: int
    name: str
    term: int
    stage: str


class SinkTables:
    """The names of the tables, and the statements that create them.

    Args:
        session: The connection.
        schema: The schema of the tables; None is the first one of the search path.
    """

    def __init__(self, session: Session, schema: str | None) -> None:
        self._session = session
        self._front = "" if schema is None else f"{quoted(schema)}."
        self.claims = self._front + quoted(_CLAIMS)
        self.fences = self._front + quoted(_FENCES)
        self.work = self._front + quoted(_WORK)

    def stage_of(self, table: str, info: TableInfo) -> str:
        """The name of the staging table of a table with these columns."""
        return self._named("stage", table, info, ())

    def gone_of(self, table: str, info: TableInfo, kept: Sequence[str]) -> str:
        """The name of the table of deleted keys, which has these columns of a table."""
        return self._named("gone", table, info, kept)

    def create(self) -> None:
        """Create the tables that all operators share."""
        self._session.catalog.create(self.work, self.statements())

    def statements(self) -> list[str]:
        """Statements for the tables that all operators share."""
        claims = f"CREATE TABLE {self.claims} (owner text PRIMARY KEY, home text NOT NULL)"
        fences = f"CREATE TABLE {self.fences} (owner text PRIMARY KEY, term bigint NOT NULL, generation bigint NOT NULL)"
        work = (
            f"CREATE TABLE {self.work} (id bigint PRIMARY KEY, owner text NOT NULL, name text NOT NULL, history text NOT NULL, "
            "subtask bigint NOT NULL, checkpoint bigint NOT NULL, term bigint NOT NULL, stage text NOT NULL, at_ms bigint NOT NULL, "
            "committed boolean NOT NULL)"
        )
        index = "tidegate_work_owner"
        place = f"{self._front}{quoted(index)}" if self._session.dialect == "sqlite" else quoted(index)
        return [claims, fences, work, f"CREATE INDEX {place} ON {self.work} (owner, subtask, checkpoint)"]

    def gone_statements(
        self, gone: str, target: str, columns: Sequence[str], key: Sequence[str]
    ) -> list[str]:
        """Statements for the table of deleted keys of a table."""
        like = f"SELECT CAST(0 AS bigint) AS tg_work, {names_of(columns)} FROM {target} WHERE 1 = 0"
        index = quoted(f"tidegate_gone_{xxhash.xxh32_hexdigest(gone.encode())}")
        return [
            f"CREATE TABLE {gone} AS {like}",
            f"CREATE UNIQUE INDEX {index} ON {gone} ({names_of(key)})",
        ]

    def _named(self, kind: str, table: str, info: TableInfo, kept: Sequence[str]) -> str:
        columns = (
            repr([(column.name, column.type) for column in info.columns]) + repr(kept) + qualified(table)
        )
        short = table.rpartition(".")[2][:_LONGEST]
        return self._front + quoted(f"tidegate_{kind}_{short}_{xxhash.xxh32_hexdigest(columns.encode())}")


class Ownership:
    """Ownership of an operator's work: the claim of a pipeline, and the fence against older writers."""

    def __init__(self, session: Session, tables: SinkTables, owner: str) -> None:
        self._session = session
        self._tables = tables
        self._owner = owner

    def claim(self, home: str, *, take_over: bool) -> None:
        """Claim the operator for the pipeline with these checkpoints; a pipeline without checkpoints claims nothing.

        Raises:
            ConfigError: another pipeline has claimed it.
        """
        session = self._session
        if not home:
            return
        with session.transaction():
            insert = f"INSERT INTO {self._tables.claims} VALUES (?, ?) ON CONFLICT (owner) DO NOTHING"
            session.execute(insert, (self._owner, home))
            found = session.execute(
                f"SELECT home FROM {self._tables.claims} WHERE owner = ?", (self._owner,)
            )[0][0]
            if found == home:
                return
            if not take_over:
                raise _claimed(session.shown, self._owner, found, home)
            session.execute(f"UPDATE {self._tables.claims} SET home = ? WHERE owner = ?", (home, self._owner))

    def fence(self, term: FencingTerm, *, take_over: bool) -> None:
        """Fence all writers that were opened before. Terms of a pipeline that is taken over are ignored.

        Raises:
            FencedError: the operator has a newer owner.
        """
        self._be_fenced()
        update = f"UPDATE {self._tables.fences} SET term = ?, generation = generation + 1 WHERE owner = ? AND (term <= ? OR ?)"
        if not self._session.change(update, (int(term), self._owner, int(term), take_over)):
            raise self._fenced()

    def fence_now(self, term: FencingTerm) -> Fence:
        """The fence for a writer that opens; it checks the fence again later.

        Raises:
            FencedError: the operator has a newer owner than the writer's.
        """
        self._be_fenced()
        query = f"SELECT term, generation FROM {self._tables.fences} WHERE owner = ?"
        found = Fence(*self._session.execute(query, (self._owner,))[0])
        if found.term > term:
            raise self._fenced()
        return found

    def check(self, fence: Fence) -> None:
        """Check that no owner has fenced this writer, and lock the fence until the transaction ends.

        Raises:
            FencedError: a newer owner has fenced it.
        """
        query = f"SELECT term, generation FROM {self._tables.fences} WHERE owner = ?"
        found = self._session.execute(query + self._session.locking, (self._owner,))
        if not found or Fence(*found[0]) != fence:
            raise self._fenced()

    def _be_fenced(self) -> None:
        """Create the row to lock."""
        insert = f"INSERT INTO {self._tables.fences} VALUES (?, 0, 0) ON CONFLICT (owner) DO NOTHING"
        self._session.execute(insert, (self._owner,))

    def _fenced(self) -> FencedError:
        return FencedError(
            f"database {self._session.shown}: operator {self._owner!r} has a newer owner; this writer stops; nothing of it is visible"
        )


class WorkTable:
    """The prepared and committed work of an operator."""

    def __init__(self, session: Session, tables: SinkTables, owner: str) -> None:
        self._session = session
        self._work = tables.work
        self._owner = owner

    def note(self, id: int, work: WorkName, stage: str, clock: Clock, *, committed: bool) -> None:
        """Insert the row of a piece of work, in the transaction that makes it durable."""
        values = (
            *(id, self._owner, work.build(), _history(work), work.subtask, work.checkpoint, work.term, stage),
            *(clock.now_ms(), committed),
        )
        self._session.execute(f"INSERT INTO {self._work} VALUES ({', '.join('?' * len(values))})", values)

    def mark_committed(self, id: int) -> bool:
        """Mark a piece of work as committed; False if another transaction has done so."""
        return bool(
            self._session.change(
                f"UPDATE {self._work} SET committed = TRUE WHERE id = ? AND NOT committed", (id,)
            )
        )

    def is_committed(self, id: int) -> bool:
        """Whether a piece of work is committed, and so visible."""
        return bool(self._session.execute(f"SELECT 1 FROM {self._work} WHERE id = ? AND committed", (id,)))

    def is_forgotten(self, work: WorkName) -> bool:
        """Whether the row of work this old would be deleted by now if it had been committed."""
        query = f"SELECT max(checkpoint) FROM {self._work} WHERE owner = ? AND history = ? AND subtask = ? AND committed"
        newest = self._session.execute(query, (self._owner, _history(work), work.subtask))[0][0]
        return newest is not None and work.checkpoint is not None and work.checkpoint < newest - _HORIZON

    def prune(self, work: WorkName) -> None:
        """Delete rows that are too old to be needed, periodically."""
        checkpoint = work.checkpoint or 0
        if checkpoint % _PRUNE == 0:
            old = f"DELETE FROM {self._work} WHERE owner = ? AND subtask = ? AND checkpoint < ? AND history = ? AND committed"
            self._session.execute(old, (self._owner, work.subtask, checkpoint - _HORIZON, _history(work)))

    def pieces(self) -> list[Piece]:
        """Prepared work of this operator that is not committed."""
        query = f"SELECT id, name, term, stage FROM {self._work} WHERE owner = ? AND NOT committed"
        return [Piece(*each) for each in self._session.execute(query, (self._owner,))]

    def remove(self, piece: Piece) -> bool:
        """Remove a piece of work, unless it was committed or removed in the meantime."""
        with self._session.transaction():
            gone = self._session.change(
                f"DELETE FROM {self._work} WHERE id = ? AND NOT committed", (piece.id,)
            )
            if gone and piece.stage and self._session.catalog.exists(piece.stage):
                self._session.execute(f"DELETE FROM {piece.stage} WHERE tg_work = ?", (piece.id,))
        return bool(gone)


class Bookkeeping:
    """All bookkeeping of one operator, with the name from `owner_name`."""

    def __init__(self, session: Session, schema: str | None, owner: str) -> None:
        self.tables = SinkTables(session, schema)
        self.ownership = Ownership(session, self.tables, owner)
        self.work = WorkTable(session, self.tables, owner)


def _history(work: WorkName) -> str:
    return f"{work.lineage}.{work.branch}"


def _claimed(where: str, owner: str, found: str, mine: str) -> ConfigError:
    return ConfigError(
        f"database {where}: the work of operator {owner!r} is claimed by a pipeline of the same name with checkpoints in {found}; "
        f"got checkpoints in {mine}; use those checkpoints or another pipeline.id; or, if that pipeline will not run again or its "
        "checkpoints were moved here, start with --take-over"
    )
