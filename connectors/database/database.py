"""Database address and login, for sources and sinks.

Example:
    >>> Database("jdbc:postgresql://db:5432/shop", username="ada", password="secret")
    Database(url='postgresql://db:5432/shop', username='ada')
    >>> Database("sqlite:/data/shop.db").dialect
    'sqlite'
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qsl, urlsplit

from tidegate.connectors.database.session import Session
from tidegate.errors import ConfigError

__all__ = ["Database", "Dialect"]

Dialect = Literal["postgresql", "sqlite"]

_KNOWN: Final = "postgresql://host:port/database or sqlite:/path/to/file"
_SECRET: Final = re.compile(r"(://[^/@\s]*:)[^/@\s]*@|((?:ssl)?password=)[^&\s]*", re.IGNORECASE)


@dataclass(frozen=True)
class Database:
    """The address of a database and its login.

    Args:
        url: `postgresql://host:port/database`, optionally with libpq's parameters (`?sslmode=verify-full&sslrootcert=...`), or
            `sqlite:/path/to/file`; a prefix `jdbc:` is ignored. Without a password.
        username: The user; None is the OS user for Postgres.
        password: The password, never shown. If it is None, libpq reads `PGPASSWORD` and `~/.pgpass`.
        connect_timeout_ms: How long to wait for a connection.
        lock_timeout_ms: How long a statement waits for a lock.

    Raises:
        ConfigError: the URL is not of a known database, or contains a password.
    """

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    connect_timeout_ms: int = field(default=10_000, repr=False)
    lock_timeout_ms: int = field(default=10_000, repr=False)

    def __post_init__(self) -> None:
        url = self.url.removeprefix("jdbc:")
        shown = _SECRET.sub(lambda found: (found[1] or found[2]) + "***" + ("@" if found[1] else ""), url)
        if shown != url:
            raise ConfigError(
                f"database url {shown!r} contains a password; expected an address only; use the argument password"
            )
        scheme, _, rest = url.partition(":")
        if scheme == "sqlite" and rest.lstrip("/"):
            # Subtasks and committers may run in processes with another working directory.
            url = f"sqlite:{Path(rest.removeprefix('//')).absolute()}"
        elif scheme not in ("postgresql", "postgres") or not rest.startswith("//"):
            raise ConfigError(f"database url {shown!r} is not of a known database; expected {_KNOWN}")
        object.__setattr__(self, "url", url)
        for name in ("connect_timeout_ms", "lock_timeout_ms"):
            if getattr(self, name) < 1:
                raise ConfigError(f"database {name} is {getattr(self, name)}; expected 1 or more")

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect."""
        return "sqlite" if self.url.startswith("sqlite:") else "postgresql"

    @property
    def shown(self) -> str:
        """The address without parameters."""
        if self.dialect == "sqlite":
            return self.url
        parts = urlsplit(self.url)
        return f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters after the address."""
        return dict(parse_qsl(urlsplit(self.url).query))

    def connect(self) -> Session:
        """Open a new connection.

        Raises:
            ConfigError: the database refuses the login, or does not exist.
            MissingExtraError: the client is not installed.
            UnavailableError: the database does not answer.
        """
        if self.dialect == "sqlite":
            from tidegate.connectors.database.sqlite import SqliteSession

            return SqliteSession(self.url.removeprefix("sqlite:"), self.lock_timeout_ms)
        from tidegate.connectors.database._client import PostgresSession

        return PostgresSession(self)
