"""Connection of a database, as writers, committers and readers use it; one subclass per dialect.

A session belongs to one thread at a time. Its errors are those of tidegate: `UnavailableError` if the same could succeed later,
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
    """A column as the database has it."""

    name: str
    type: str
    nullable: bool = True
    filled: bool = False
    """Whether the database makes a value if none is given."""
    generated: bool = False
    """Whether it can only be made by the database."""


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table as the database has it."""

    columns: tuple[ColumnInfo, ...]
    unique: tuple[frozenset[str], ...] = ()
    """The columns of each unique index that `ON CONFLICT` can name."""
    primary: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    """The names of constraints that need rows of other tables."""
    other_unique: tuple[str, ...] = ()
    """The names of all unique and exclusion indexes."""


class Session(ABC):
    """A connection. Statements are committed one by one, outside of `transaction`."""

    dialect: ClassVar[str]
    locking: ClassVar[str]
    """What a query ends with so that no other transaction changes its rows until this one ends."""
    shown: str
    """Which database it is, for messages."""
    catalog: Catalog
    prepared: PreparedTransactions | None = None
    """None if the database cannot prepare transactions."""

    @abstractmethod
    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows that a statement answers, none if it answers no rows. `?` stands for a value."""

    @abstractmethod
    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """How many rows a statement changed."""

    @abstractmethod
    def stream(self, sql: str, values: Sequence[Any], size: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query, `size` at a time, without holding all of them. The generator is to be closed."""

    @abstractmethod
    def load(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], shown: str) -> None:
        """Insert many rows. `table` is as SQL writes it; `shown` is what messages call it."""

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
        """Where the rows of an epoch are collected; they become visible in `stage` all at once, by `keep_epoch`.

        Begins a transaction where that does not keep others waiting.
        """

    @abstractmethod
    def keep_epoch(self, stage: str) -> None:
        """Bring what was collected to the stage; a transaction is open behind it."""

    @abstractmethod
    def scratch(self, target: str) -> str:
        """A temporary stage of a table, which is empty at the beginning of each transaction. Called once."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        self.begin()
        try:
            yield
        except BaseException:
            with suppress(TidegateError):  # what ended the block says more
                self.end(commit=False)
            raise
        self.end(commit=True)


class Catalog(ABC):
    """What tables there are, and how the sink's own are created."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @abstractmethod
    def exists(self, table: str) -> bool:
        """Whether there is a table of this name, as SQL writes it."""

    @abstractmethod
    def describe(self, table: str) -> TableInfo | None:
        """What a table is like; None if it does not exist."""

    @abstractmethod
    def missing_privileges(self, table: str, wanted: Sequence[str]) -> list[str]:
        """Which of these, such as `INSERT`, the user does not have."""

    @abstractmethod
    def created_like(self, target: str, stage: str) -> list[str]:
        """The statements that create the stage of a table."""

    def table(self, table: str, shown: str) -> TableInfo:
        """What a table is like.

        Raises:
            ConfigError: it does not exist.
        """
        found = self.describe(table)
        if found is None:
            raise ConfigError(
                f"table {shown} does not exist in {self._session.shown}; create it, or correct its name, whose case counts"
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
        """Wait until no other session creates tables of the sink, and keep others waiting."""


class PreparedTransactions(ABC):
    """Prepared transactions of a database, through a session."""

    @abstractmethod
    def prepare(self, gid: str) -> None:
        """Make the open transaction durable and invisible under this name, and end it."""

    @abstractmethod
    def finish(self, gid: str, *, commit: bool) -> bool:
        """Commit a prepared transaction, or roll it back; False if there is none of this name, which says nothing of why."""

    @abstractmethod
    def begun_with(self, prefix: str) -> list[tuple[str, int]]:
        """Those of this database whose names begin so, each with its age in milliseconds."""

    @abstractmethod
    def limit(self) -> int:
        """How many the server lets be prepared at the same time."""
