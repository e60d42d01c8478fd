"""Database of a source: its tables, its types, and a session that is opened when it is first used."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from tidegate.cdc.postgres._client import Session
from tidegate.cdc.postgres.catalog import read_types
from tidegate.cdc.postgres.options import PostgresOptions
from tidegate.cdc.postgres.types import TypeCatalog

__all__ = ["Database"]


class Database:
    """A database as one enumerator or reader uses it.

    Args:
        connect: Connection parameters of libpq.
        publication: The publication of the slot.
        tables: Regular expressions for whole names, `schema.table`.
        options: The options of the source.
        needs_before: Whether the log must have the rows before updates and deletions.
    """

    def __init__(
        self,
        connect: Mapping[str, Any],
        publication: str,
        tables: Sequence[str],
        options: PostgresOptions,
        *,
        needs_before: bool,
    ) -> None:
        self.connect = connect
        self.publication = publication
        self.tables = tables
        self.options = options
        self.needs_before = needs_before
        self._open: Session | None = None

    @property
    def session(self) -> Session:
        """The session for queries."""
        if self._open is None:
            self._open = Session(self.connect)
        return self._open

    @property
    def timeout_s(self) -> float:
        """How long the server may take."""
        return self.options.connect_timeout_ms / 1_000

    @cached_property
    def name(self) -> str:
        """Its name."""
        ((name,),) = self.session.rows("select current_database()")
        return str(name)

    @cached_property
    def types(self) -> TypeCatalog:
        """Its types; delete the attribute to read them again."""
        return TypeCatalog(read_types(self.session), self.options.special_dates)

    def captures(self, schema: str, table: str) -> bool:
        """Whether a table is read."""
        return any(re.fullmatch(each, f"{schema}.{table}") for each in self.tables)

    def close(self) -> None:
        """Disconnect."""
        if self._open is not None:
            self._open.close()
            self._open = None
