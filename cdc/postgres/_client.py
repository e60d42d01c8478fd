"""Postgres client, the only module here that imports psycopg: sessions for queries and the stream of a replication slot.

Errors are translated into tidegate's. Nothing here logs or shows a password.
"""

from __future__ import annotations

import select
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self

from tidegate.cdc.postgres.literals import identifier, literal
from tidegate.cdc.postgres.pgoutput import format_lsn, parse_lsn
from tidegate.cdc.postgres.types import SESSION
from tidegate.cdc.postgres.visibility import TransactionView
from tidegate.clock import Clock
from tidegate.errors import ConfigError, MissingExtraError, TidegateError, UnavailableError

try:
    import psycopg
    from psycopg import pq
    from psycopg.conninfo import make_conninfo
except ImportError as missing:
    raise MissingExtraError(
        "postgres support is not installed; run: pip install 'tidegate[postgres]'"
    ) from missing

__all__ = ["CopyStream", "ReplicationStream", "Session", "address", "create_slot", "translated_errors"]

_EPOCH_2000_US: Final = 946_684_800_000_000
_STATUS: Final = struct.Struct("!cQQQqB")
_STATUS_INTERVAL_S: Final = 10.0
_DATA: Final = ord("w")
_HEADER: Final = 25
"""Length of the header of a log message."""
_KEEPALIVE: Final = struct.Struct("!QqB").unpack_from
_WITHOUT_LIMITS: Final = {"statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
"""Backpressure may make a chunk take long; timeouts that the user's other programs need must not end it."""
_OPTIONS: Final = " ".join(f"-c {name}={value}" for name, value in {**SESSION, **_WITHOUT_LIMITS}.items())


@contextmanager
def translated_errors(doing: str) -> Iterator[None]:
    """Translate errors of psycopg: UnavailableError if a retry may succeed, ConfigError if the user has to change something."""
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error, doing) from error


class Session:
    """A connection for queries, with the settings that fix the text of values; each query is its own transaction.

    Raises:
        ConfigError: the server refuses the login or a setting.
        UnavailableError: the server did not answer.
    """

    def __init__(self, connect: Mapping[str, Any]) -> None:
        with translated_errors(f"connecting to {address(connect)}"):
            self.connection = psycopg.connect(_conninfo(connect), autocommit=True)

    @property
    def version(self) -> int:
        """The server's version, such as 150018."""
        return self.connection.info.server_version

    def rows(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with translated_errors("a query"):
            return self.connection.execute(query, arguments or None).fetchall()

    def row(self, query: str, *arguments: Any) -> tuple[Any, ...] | None:
        """The first row of a query, if there is any."""
        return next(iter(self.rows(query, *arguments)), None)

    def execute(self, query: str, *arguments: Any) -> None:
        """Run a statement."""
        with translated_errors("a statement"):
            self.connection.execute(query, arguments or None)

    def lock(self, table: str) -> bool:
        """Lock a table against TRUNCATE and ALTER until the transaction ends; False if the lock is not available now."""
        with translated_errors("locking a table"):
            try:
                self.connection.execute(f"lock table {table} in access share mode nowait")
            except psycopg.errors.LockNotAvailable:
                return False
        return True

    def close(self) -> None:
        """Disconnect."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ReplicationStream:
    """The messages of a logical slot from a position on. Called by one thread; a second thread only sends keepalives.

    The server ends a stream whose reader sends nothing for `wal_sender_timeout`, even during backpressure. So a thread
    repeats the last confirmed position every ten seconds.

    Args:
        connect: Connection parameters of libpq.
        slot: The slot.
        name: The application name of the connection, which identifies our readers.
        start: The start position; the server silently moves it forward to the confirmed position, so compare them before.
        options: Options of pgoutput, such as `proto_version`.
        clock: The clock of status messages.

    Raises:
        ConfigError: the slot does not exist, or may not be read.
        UnavailableError: the server did not answer, or another program reads the slot.
    """

    def __init__(
        self,
        connect: Mapping[str, Any],
        slot: str,
        name: str,
        start: int,
        options: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._slot, self._name, self._clock = slot, name, clock
        self._confirmed = start
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._connection = self._started(connect, start, options)
        self._keeper = threading.Thread(target=self._keep, daemon=True, name="tidegate-replication-status")
        self._keeper.start()
        self.server_position = start
        """The end of the server's log in its last message; everything before it was received."""

    def receive(self, limit: int) -> list[bytes]:
        """The payloads that have arrived, `limit` at most; does not wait.

        Raises:
            UnavailableError: the stream has ended.
        """
        payloads: list[bytes] = []
        with self._lock, translated_errors(f"reading slot {self._slot!r}"):
            connection = self._connection
            while len(payloads) < limit:
                size, data = connection.get_copy_data(1)
                if size > 0:
                    if data[0] == _DATA:
                        payloads.append(bytes(data[_HEADER:]))
                    else:
                        self._keepalive(bytes(data))
                elif size == 0:
                    if payloads or not _readable(connection):
                        break
                    connection.consume_input()
                else:
                    raise self._ended()
        return payloads

    def confirm(self, position: int) -> None:
        """Confirm a position: the server may delete the log before it, which cannot be read again."""
        self._confirmed = max(self._confirmed, position)
        with self._lock, translated_errors(f"confirming a position of slot {self._slot!r}"):
            self._send_status()

    def close(self) -> None:
        """Disconnect; the slot stays."""
        self._closed.set()
        self._keeper.join()
        with self._lock:
            self._connection.finish()

    def _started(self, connect: Mapping[str, Any], start: int, options: Mapping[str, str]) -> pq.abc.PGconn:
        own = {"replication": "database", "application_name": self._name}
        connection = pq.PGconn.connect(_conninfo(connect, **own).encode())
        if connection.status != pq.ConnStatus.OK:
            reason = connection.get_error_message()
            connection.finish()
            raise _refused_connection(reason, f"opening a replication connection to {address(connect)}")
        given = ", ".join(f"{name} '{value}'" for name, value in options.items())
        connection.send_query(
            f"START_REPLICATION SLOT {identifier(self._slot)} LOGICAL {format_lsn(start)} ({given})".encode()
        )
        result = connection.get_result()
        if result is None or result.status != pq.ExecStatus.COPY_BOTH:
            reason = connection.get_error_message()
            connection.finish()
            raise _refused_slot(self._slot, reason)
        connection.nonblocking = 1
        return connection

    def _keepalive(self, data: bytes) -> None:
        position, _, reply = _KEEPALIVE(data, 1)
        self.server_position = max(self.server_position, position)
        if reply:
            self._send_status()

    def _send_status(self) -> None:
        now = self._clock.now_ms() * 1_000 - _EPOCH_2000_US
        at = self._confirmed
        self._connection.put_copy_data(_STATUS.pack(b"r", at, at, at, now, 0))
        while self._connection.flush():
            select.select([], [self._connection.socket], [], 1.0)

    def _keep(self) -> None:
        while not self._closed.wait(_STATUS_INTERVAL_S):
            with self._lock:
                try:
                    self._send_status()
                except psycopg.Error:
                    return  # `receive` reports it

    def _ended(self) -> TidegateError:
        reason = self._connection.get_error_message()
        return UnavailableError(
            f"the server ended the stream of slot {self._slot!r}: {reason}; the source starts again"
        )


class CopyStream:
    """The rows of a query in COPY's text form, read in an exported snapshot. Called by one thread.

    Raises:
        UnavailableError: the server did not answer, or the snapshot does not exist any more.
    """

    def __init__(self, connect: Mapping[str, Any], snapshot: str, query: str) -> None:
        self._session = Session(connect)
        self._ended = False
        try:
            self._session.execute("begin isolation level repeatable read read only")
            self._import(snapshot)
            self._connection = self._session.connection.pgconn
            self._connection.send_query(f"copy ({query}) to stdout".encode())
            result = self._connection.get_result()
            if result is None or result.status != pq.ExecStatus.COPY_OUT:
                raise self._failed(result)
            self._connection.nonblocking = 1
        except BaseException:
            self._session.close()
            raise

    def receive(self, limit: int) -> list[bytes] | None:
        """The rows that have arrived, without their line ends, `limit` at most; None at the end. Does not wait.

        Raises:
            UnavailableError: the server ended the query.
        """
        rows: list[bytes] = []
        with translated_errors("reading a chunk"):
            while len(rows) < limit and not self._ended:
                size, data = self._connection.get_copy_data(1)
                if size > 0:
                    rows.append(bytes(data[:-1]))
                elif size == 0:
                    if rows or not _readable(self._connection):
                        break
                    self._connection.consume_input()
                else:
                    self._ended = True
                    result = self._connection.get_result()
                    if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
                        raise self._failed(result)
        return None if self._ended and not rows else rows

    def close(self) -> None:
        """Disconnect."""
        self._session.close()

    def _import(self, snapshot: str) -> None:
        try:
            self._session.connection.execute(f"set transaction snapshot {literal(snapshot)}")
        except (psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue) as error:
            raise UnavailableError(
                f"postgres: the snapshot of a chunk has ended ({str(error).strip()}); it is read in another one after a restart"
            ) from error
        except psycopg.Error as error:
            raise _translated(error, "reading a chunk") from error

    def _failed(self, result: pq.abc.PGresult | None) -> TidegateError:
        state = result and result.error_field(pq.DiagnosticField.SQLSTATE)
        text = f"postgres: reading a chunk failed: {self._connection.get_error_message().strip()}"
        if state and state.startswith(_WRONG_QUERY):
            return ConfigError(
                f"{text}; if the table was changed while it was loaded, start with a first load"
            )
        return UnavailableError(text)


def create_slot(connect: Mapping[str, Any], slot: str, timeout_s: float) -> tuple[int, TransactionView]:
    """Create a logical slot; returns the start of its log, and the transactions before it.

    Raises:
        ConfigError: the name is in use, wal_level is not logical, or the user lacks the privilege.
        UnavailableError: timeout; the server waits for open transactions.
    """
    with translated_errors(f"creating slot {slot!r}"):
        connection = psycopg.connect(_conninfo(connect, replication="database"), autocommit=True)
        canceller = threading.Timer(timeout_s, connection.cancel)
        canceller.start()
        try:
            cursor = psycopg.ClientCursor(connection)
            _wait_for_slot(cursor, connect, slot, timeout_s)
            _, lsn, snapshot, _ = cursor.fetchone() or ()
            with Session(connect) as session:
                session.execute("begin isolation level repeatable read read only")
                session.execute(f"set transaction snapshot {literal(snapshot)}")
                (view,) = session.row("select pg_current_snapshot()::text") or ()
        finally:
            canceller.cancel()
            connection.close()
    return parse_lsn(lsn), TransactionView.parse(view)


def _wait_for_slot(
    cursor: psycopg.Cursor[Any], connect: Mapping[str, Any], slot: str, timeout_s: float
) -> None:
    try:
        cursor.execute(f"CREATE_REPLICATION_SLOT {identifier(slot)} LOGICAL pgoutput (SNAPSHOT 'export')")
    except psycopg.errors.QueryCanceled as error:
        with Session(connect) as session:
            found = ", ".join(name for (name,) in session.rows(_OPEN_TRANSACTIONS))
        raise UnavailableError(
            f"postgres: slot {slot!r} was not created within {timeout_s:.0f} s, because the server first waits for all open "
            f"transactions; got {found or 'none that this user can see'}; end them, or set connect_timeout higher"
        ) from error


_OPEN_TRANSACTIONS: Final = """
    (select 'prepared transaction ' || quote_literal(gid) || ' of ' || owner from pg_prepared_xacts order by prepared limit 5)
    union all (
        select 'process ' || pid || ' of ' || usename from pg_stat_activity
        where backend_xid is not null and pid <> pg_backend_pid() order by xact_start limit 5)
"""


def _readable(connection: pq.abc.PGconn) -> bool:
    """Whether data has arrived; does not wait."""
    return bool(select.select([connection.socket], [], [], 0.0)[0])


def address(connect: Mapping[str, Any]) -> str:
    """The server and database that connection parameters name, without the login."""
    host, port = connect.get("host", "localhost"), connect.get("port", 5432)
    return f"{host}:{port}/{connect.get('dbname', connect.get('user', ''))}"


def _conninfo(connect: Mapping[str, Any], **own: str) -> str:
    options = f"{connect.get('options', '')} {_OPTIONS}".strip()
    return make_conninfo(
        **{"connect_timeout": 15, **connect, "client_encoding": "UTF8", "options": options, **own}
    )


def _translated(error: psycopg.Error, doing: str) -> TidegateError:
    text = f"postgres: {doing} failed: {str(error).strip()}"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return ConfigError(f"{text}; grant what is missing to the user of the source")
    if isinstance(error, (psycopg.errors.UndefinedObject, psycopg.errors.UndefinedTable)):
        return ConfigError(text)
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return _refused_connection(str(error), doing)
    return UnavailableError(text)


_WRONG_QUERY: Final = b"42"
"""SQLSTATE class of errors that a retry cannot repair: a name or a privilege is missing."""
_LOGIN: Final = (
    "authentication failed",
    "does not exist",
    "no pg_hba.conf entry",
    "must be superuser",
    "permission denied",
)


def _refused_connection(reason: str, doing: str) -> TidegateError:
    text = f"postgres: {doing} failed: {reason.strip()}"
    if any(each in reason for each in _LOGIN):
        return ConfigError(
            f"{text}; the source needs a user with LOGIN and REPLICATION that may connect to the database"
        )
    return UnavailableError(text)


def _refused_slot(slot: str, reason: str) -> TidegateError:
    text = f"postgres: slot {slot!r} cannot be read: {reason.strip()}"
    if "is active for PID" in reason:
        text += "; a slot has one reader: stop the other program"
    lost = "does not exist" in reason or "can no longer" in reason
    return ConfigError(text) if lost else UnavailableError(text)
