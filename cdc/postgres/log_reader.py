"""Log reader: converts the messages of a slot to changes of rows, in commit order, and keeps the position to continue from.

Pure: messages in, changes out. The position advances with every change that is read, so it can be saved between any two of
them: a partially read transaction is received again as a whole and its first changes are skipped. Transactions
that arrive in parts before they are committed wait in a file and are read from there at their commit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from tempfile import SpooledTemporaryFile
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from tidegate.cdc.change import Op
from tidegate.cdc.postgres.pgoutput import (
    Begin,
    Commit,
    LogicalMessage,
    Relation,
    StreamAbort,
    StreamCommit,
    StreamStart,
    StreamStop,
    Truncate,
    decode_message,
)
from tidegate.cdc.postgres.row_decoder import RowDecoder
from tidegate.errors import InternalError

__all__ = ["LogChange", "LogEvent", "LogPosition", "LogReader", "LogTable", "Transaction"]

_OID: Final = struct.Struct("!I").unpack_from
_SIZE: Final = struct.Struct("!I")
_INSERT, _UPDATE, _DELETE = b"IUD"
_NEW, _KEY = b"NK"
_ROWS: Final = frozenset(b"IUD")
_DESCRIPTIONS: Final = frozenset(b"RY")
_STREAM_STOP: Final = ord("E")
_IN_MEMORY: Final = 16 << 20
"""Bytes in memory of a transaction that arrives in parts; a larger one is written to a file."""


class LogPosition(msgspec.Struct, frozen=True):
    """The position to continue from: after a transaction, and after a number of changes of the next one."""

    end_lsn: int
    """End of the last transaction that was read completely."""
    commit_lsn: int = 0
    """The partially read transaction, if there is one."""
    changes: int = 0
    """The number of its changes that were read."""


class Transaction(NamedTuple):
    """A transaction of the database."""

    xid: int
    commit_lsn: int
    committed_at: int
    """Microseconds since 2000-01-01 UTC."""


class LogTable(NamedTuple):
    """A version of a captured table."""

    relation: Relation
    decode: RowDecoder
    about: Any = None
    """Data of the caller for this table."""


class LogChange(NamedTuple):
    """A change of one row, or TRUNCATE of a table.

    `before` is None if the log does not have it, and has None in all columns except the key if `key_only`.
    """

    op: Op
    table: LogTable
    before: tuple[object, ...] | None
    after: tuple[object, ...] | None
    key_only: bool
    transaction: Transaction
    number: int
    """Its index in the transaction, from 0."""


LogEvent: TypeAlias = LogChange | LogicalMessage | Commit
"""Events of a log: changes, logical messages of programs, and ends of transactions."""


class LogReader:
    """Reads the messages of one slot.

    Args:
        position: The start position of the stream.
        open_table: Returns the version of a table for its description in the log, or None if it is not captured.
    """

    def __init__(self, position: LogPosition, open_table: Callable[[Relation], LogTable | None]) -> None:
        self._end_lsn = position.end_lsn
        self._partial = position
        self._open_table = open_table
        self._tables: dict[int, LogTable | None] = {}
        self._transaction: Transaction | None = None
        self._number = 0
        self._parts: dict[int, _Parts] = {}
        self._part: _Parts | None = None

    @property
    def position(self) -> LogPosition:
        """The position after the last event that was read."""
        if self._transaction is None or self._number == 0:
            return LogPosition(self._end_lsn)
        return LogPosition(self._end_lsn, self._transaction.commit_lsn, self._number)

    def advance(self, lsn: int) -> None:
        """Advance to the server's position while there are no changes, so that it need not keep the log for us."""
        if self._transaction is None and not self._parts:
            self._end_lsn = max(self._end_lsn, lsn)

    def events(self, payloads: Iterable[bytes]) -> Iterator[LogEvent]:
        """The events of messages in their order, decoded lazily.

        Raises:
            RecordError: a message or a row cannot be read.
        """
        for payload in payloads:
            if self._part is not None and payload[0] != _STREAM_STOP:
                self._part.add(payload)
            elif payload[0] in _ROWS:
                if (change := self._change(payload, 1)) is not None:
                    yield change
            else:
                yield from self._other(payload)

    def _other(self, payload: bytes) -> Iterator[LogEvent]:
        match decode_message(payload):
            case Begin(lsn, committed_at, xid):
                self._begin(Transaction(xid, lsn, committed_at))
            case Commit() as commit:
                yield self._commit(commit)
            case StreamStart(xid):
                if xid not in self._parts:
                    self._parts[xid] = _Parts()
                self._part = self._parts[xid]
            case StreamStop():
                self._part = None
            case StreamAbort(xid, sub_xid):
                self._abort(xid, sub_xid)
            case StreamCommit(xid, lsn, end_lsn, committed_at):
                self._begin(Transaction(xid, lsn, committed_at))
                with self._parts.pop(xid, None) or _Parts() as parts:
                    yield from self._streamed(parts)
                yield self._commit(Commit(lsn, end_lsn, committed_at))
            case message:
                yield from self._within(message)

    def _streamed(self, parts: _Parts) -> Iterator[LogEvent]:
        """A transaction that came in parts; its messages begin with the id of their subtransaction."""
        for payload in parts.payloads():
            if payload[0] not in _ROWS:
                yield from self._within(decode_message(payload, streamed=True))
            elif (change := self._change(payload, 5)) is not None:
                yield change

    def _within(self, message: object) -> Iterator[LogEvent]:
        match message:
            case Relation(oid=oid):
                self._tables[oid] = self._open_table(message)
            case LogicalMessage():
                yield message
            case Truncate(oids=oids):
                for oid in oids:
                    numbered = self._next()
                    if numbered is not None and (table := self._tables.get(oid)) is not None:
                        yield LogChange(Op.TRUNCATE, table, None, None, False, *numbered)

    def _begin(self, transaction: Transaction) -> None:
        self._transaction, self._number = transaction, 0

    def _commit(self, commit: Commit) -> Commit:
        self._transaction, self._number = None, 0
        self._end_lsn = commit.end_lsn
        return commit

    def _abort(self, xid: int, sub_xid: int) -> None:
        if xid == sub_xid:
            (self._parts.pop(xid, None) or _Parts()).close()
        elif xid in self._parts:
            self._parts[xid].aborted.add(sub_xid)

    def _change(self, payload: bytes, at: int) -> LogChange | None:
        (oid,) = _OID(payload, at)
        numbered = self._next()
        try:
            table = self._tables[oid]
        except KeyError:
            raise InternalError(
                f"the log has a row of relation {oid} before its description; please report it"
            ) from None
        if table is None or numbered is None:
            return None
        kind, decode = payload[0], table.decode
        at += 4
        image = payload[at]
        row, at = decode(payload, at + 1)
        if kind == _INSERT:
            return LogChange(Op.CREATE, table, None, row, False, *numbered)
        if kind == _DELETE:
            return LogChange(Op.DELETE, table, row, None, image == _KEY, *numbered)
        if image == _NEW:
            return LogChange(Op.UPDATE, table, None, row, False, *numbered)
        after, _ = decode(payload, at + 1)
        return LogChange(Op.UPDATE, table, row, after, image == _KEY, *numbered)

    def _next(self) -> tuple[Transaction, int] | None:
        """The transaction and the number of the next change; None if it was read before a restart.

        Changes of other tables are counted too, so that the position does not depend on the captured tables.
        """
        transaction = self._transaction
        if transaction is None:
            raise InternalError("the log has a change outside of a transaction; please report it")
        number, self._number = self._number, self._number + 1
        if transaction.commit_lsn == self._partial.commit_lsn and number < self._partial.changes:
            return None
        return transaction, number


class _Parts:
    """The messages of a transaction that is not committed yet."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 # closed with the transaction
        self.aborted: set[int] = set()
        """Subtransactions that were rolled back."""

    def add(self, payload: bytes) -> None:
        """Append a message."""
        self._file.write(_SIZE.pack(len(payload)) + payload)

    def payloads(self) -> Iterator[bytes]:
        """All messages that were not rolled back, and all table descriptions, which the server does not repeat after a rollback."""
        self._file.seek(0)
        while size := self._file.read(_SIZE.size):
            payload = self._file.read(*_SIZE.unpack(size))
            if payload[0] in _DESCRIPTIONS or _OID(payload, 1)[0] not in self.aborted:
                yield payload

    def close(self) -> None:
        """Delete the messages."""
        self._file.close()

    def __enter__(self) -> _Parts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
