"""Database session for writers, committers and readers; one subclass per dialect.

A session belongs to one thread at a time. Its errors are those of tidegate: `UnavailableError` if a retry may succeed,
`RecordError` if the table refuses a row, `ConfigError` if a person must change something. They never show credentials.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from tidegate.errors import ConfigError, TidegateError

__all__ = ["Catalog", "ColumnInfo", "PreparedTransactions", "Session", "TableInfo"]


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """A column in the database."""

    name: str
    type: str
    nullable: bool = True
    filled: bool = False
    """Whether the database has a default for it."""
    generated: bool = False
    """Whether only the database can write it (a generated column)."""


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table in the database."""

    columns: tuple[ColumnInfo, ...]
    unique: tuple[frozenset[str], ...] = ()
    """The columns of each unique index that `ON CONFLICT` can use."""
    primary: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    """The names of foreign keys."""
    other_unique: tuple[str, ...] = ()
    """The names of all unique and exclusion indexes."""


class Session(ABC):
    """A connection. Statements outside of `transaction` are committed one by one."""

    dialect: ClassVar[str]
    locking: ClassVar[str]
    """The suffix of a query that locks its rows until the transaction ends."""
    shown: str
    """The database in messages."""
    catalog: Catalog
    prepared: PreparedTransactions | None = None
    """None if the database cannot prepare transactions."""

    @abstractmethod
    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows that a statement returns; empty if it returns none. `?` is a parameter."""

    @abstractmethod
    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """The number of rows that a statement changed."""

    @abstractmethod
    def stream(self, sql: str, values: Sequence[Any], size: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query, `size` at a time, without loading all of them. The caller must close the generator."""

    @abstractmethod
    def load(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], shown: str) -> None:
        """Insert many rows. `table` is its name in SQL; `shown` its name in messages."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def end(self, *, commit: bool) -> None:
        """End the transaction."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect; an open transaction is rolled back."""

    @abstractmethod
    def epoch_table(self, stage: str) -> str:
        """The table for the rows of an epoch; `keep_epoch` moves them to `stage` at once.

        Begins a transaction if that does not block others.
        """

    @abstractmethod
    def keep_epoch(self, stage: str) -> None:
        """Move the rows of the epoch to the staging table; leaves a transaction open."""

    @abstractmethod
    def scratch(self, target: str) -> str:
        """Create a temporary staging table, which is empty at the beginning of each transaction. Called once."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction: committed at the end of the block, rolled back after an exception."""
        self.begin()
        try:
            yield
        except BaseException:
            with suppress(TidegateError):  # the error of the block is more useful
                self.end(commit=False)
            raise
        self.end(commit=True)


class Catalog(ABC):
    """The tables of the database, and creation of the sink's own tables."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @abstractmethod
    def exists(self, table: str) -> bool:
        """Whether a table with this name in SQL exists."""

    @abstractmethod
    def describe(self, table: str) -> TableInfo | None:
        """The description of a table; None if it does not exist."""

    @abstractmethod
    def missing_privileges(self, table: str, wanted: Sequence[str]) -> list[str]:
        """The privileges, such as `INSERT`, that the user lacks."""

    @abstractmethod
    def created_like(self, target: str, stage: str) -> list[str]:
        """The statements that create the staging table of a table."""

    def table(self, table: str, shown: str) -> TableInfo:
        """The description of a table.

        Raises:
            ConfigError: it does not exist.
        """
        found = self.describe(table)
        if found is None:
            raise ConfigError(
                f"table {shown} does not exist in {self._session.shown}; create it, or correct its name, which is case-sensitive"
            )
        return found

    def create(self, table: str, statements: Sequence[str]) -> None:
        """Create a table with these statements if it does not exist.

        Raises:
            ConfigError: this user may not; the message has the statements.
        """
        if self.exists(table):
            return
        try:
            with self._alone(), self._session.transaction():
                if not self.exists(table):
                    for statement in statements:
                        self._session.execute(statement)
        except ConfigError as error:
            raise ConfigError(
                f"{error}; the sink needs table {table}; grant CREATE, or run: {'; '.join(statements)}; and grant SELECT, INSERT, "
                "UPDATE and DELETE on what it creates"
            ) from error

    @abstractmethod
    def _alone(self) -> AbstractContextManager[object]:
        """Lock the creation of the sink's tables against other sessions."""


class PreparedTransactions(ABC):
    """Prepared transactions of a database, through a session."""

    @abstractmethod
    def prepare(self, gid: str) -> None:
        """Prepare the open transaction under this name: durable, but not visible."""

    @abstractmethod
    def finish(self, gid: str, *, commit: bool) -> bool:
        """Commit a prepared transaction, or roll it back; False if there is none with this name, whether it was committed or rolled back."""

    @abstractmethod
    def begun_with(self, prefix: str) -> list[tuple[str, int]]:
        """The prepared transactions of this database with this prefix, each with its age in milliseconds."""

    @abstractmethod
    def limit(self) -> int:
        """The maximum number of prepared transactions of the server."""
