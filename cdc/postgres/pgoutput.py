"""Decoder of pgoutput, the logical replication protocol of Postgres, versions 1 to 4.

It decodes the messages of transactions and table definitions; `row_decoder` decodes the rows. Pure: payload in, value out.
The option `two_phase` is not used: a prepared transaction is received when it is committed, like any other.

Example:
    >>> import struct
    >>> decode_message(b"B" + struct.pack("!QqI", 0x16B3748, 0, 731))
    Begin(lsn=23803720, committed_at=0, xid=731)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from tidegate.errors import RecordError

__all__ = [
    "Begin",
    "Commit",
    "LogicalMessage",
    "Message",
    "Origin",
    "Relation",
    "RelationColumn",
    "StreamAbort",
    "StreamCommit",
    "StreamStart",
    "StreamStop",
    "Truncate",
    "Type",
    "decode_message",
    "format_lsn",
    "parse_lsn",
]


class Begin(NamedTuple):
    """A transaction begins; `lsn` is the position of its commit record."""

    lsn: int
    committed_at: int
    """Microseconds since 2000-01-01 UTC."""
    xid: int


class Commit(NamedTuple):
    """The transaction ends. A reader that continues at `end_lsn` does not receive it again."""

    lsn: int
    end_lsn: int
    committed_at: int


class RelationColumn(NamedTuple):
    """A column of a table as the log describes it."""

    name: str
    type_oid: int
    modifier: int
    in_identity: bool
    """Whether it belongs to the replica identity."""


class Relation(NamedTuple):
    """A table definition; sent before its first row and again before the first row after each change of the table."""

    oid: int
    schema: str
    table: str
    identity: str
    """Replica identity: `d`efault, `n`othing, `f`ull or `i`ndex."""
    columns: tuple[RelationColumn, ...]
    xid: int | None = None


class Type(NamedTuple):
    """A type that is not built-in."""

    oid: int
    schema: str
    name: str
    xid: int | None = None


class Origin(NamedTuple):
    """The transaction came from another server through replication."""

    lsn: int
    name: str


class Truncate(NamedTuple):
    """A TRUNCATE of tables."""

    oids: tuple[int, ...]
    cascade: bool
    restart_identity: bool
    xid: int | None = None


class LogicalMessage(NamedTuple):
    """A message of `pg_logical_emit_message`."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes
    xid: int | None = None


class StreamStart(NamedTuple):
    """A part of a transaction that is still open; `first` if it is its first part."""

    xid: int
    first: bool


class StreamStop(NamedTuple):
    """The end of the part."""


class StreamCommit(NamedTuple):
    """A streamed transaction is committed."""

    xid: int
    lsn: int
    end_lsn: int
    committed_at: int


class StreamAbort(NamedTuple):
    """A streamed transaction, or a subtransaction of it, is rolled back."""

    xid: int
    sub_xid: int


Message: TypeAlias = (
    Begin
    | Commit
    | Relation
    | Type
    | Origin
    | Truncate
    | LogicalMessage
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
)

_INT16, _INT32 = struct.Struct("!h"), struct.Struct("!I")
_Decoder: TypeAlias = Callable[["_Fields", int | None], Message]


def decode_message(payload: bytes, *, streamed: bool = False) -> Message:
    """Decode a message that contains no row; `streamed` if it is in a part of a streamed transaction.

    Raises:
        RecordError: the message is of an unknown kind, or damaged.
    """
    kind = payload[:1]
    if kind not in _DECODERS:
        known = b"".join(_DECODERS).decode()
        raise RecordError(
            f"pgoutput message {payload[:20]!r} has an unknown kind; expected one of {known}; use protocol version 1 to 4"
        )
    fields = _Fields(payload)
    try:
        xid = fields.int32() if streamed and kind in _WITH_XID else None
        return _DECODERS[kind](fields, xid)
    except (struct.error, ValueError) as error:
        raise RecordError(f"pgoutput message {payload[:40]!r} is damaged: {error}") from error


def format_lsn(lsn: int) -> str:
    """A position in the log in Postgres' text form.

    Example:
        >>> format_lsn(0x1_6B374D84), parse_lsn("1/6B374D84") == 0x1_6B374D84
        ('1/6B374D84', True)
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """The position of Postgres' text form."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


class _Fields:
    """Reads the fields of a message, one after the other."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._next = 1

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Numbers of fixed sizes."""
        start, self._next = self._next, self._next + layout.size
        return layout.unpack_from(self._payload, start)

    def int8(self) -> int:
        """One byte."""
        self._next += 1
        if self._next > len(self._payload):
            raise ValueError("a byte is missing")
        return self._payload[self._next - 1]

    def int32(self) -> int:
        """Four unsigned bytes: an id."""
        number: int = self.unpack(_INT32)[0]
        return number

    def text(self) -> str:
        """A text that ends with a zero byte."""
        end = self._payload.index(0, self._next)
        start, self._next = self._next, end + 1
        return self._payload[start:end].decode()

    def content(self) -> bytes:
        """Bytes with a length prefix."""
        size = self.int32()
        start, self._next = self._next, self._next + size
        if self._next > len(self._payload):
            raise ValueError(f"{self._next - len(self._payload)} bytes are missing")
        return self._payload[start : self._next]


def _begin(fields: _Fields, xid: int | None) -> Begin:
    return Begin(*fields.unpack(_BEGIN))


def _commit(fields: _Fields, xid: int | None) -> Commit:
    fields.int8()
    return Commit(*fields.unpack(_COMMIT))


def _relation(fields: _Fields, xid: int | None) -> Relation:
    oid, schema, table = fields.int32(), fields.text(), fields.text()
    identity = chr(fields.int8())
    (count,) = fields.unpack(_INT16)
    columns = tuple(_column(fields) for _ in range(count))
    # The protocol has no name for pg_catalog: its tables have an empty schema.
    return Relation(oid, schema or "pg_catalog", table, identity, columns, xid)


def _column(fields: _Fields) -> RelationColumn:
    in_identity, name = bool(fields.int8() & 1), fields.text()
    oid, modifier = fields.unpack(_COLUMN)
    return RelationColumn(name, oid, modifier, in_identity)


def _type(fields: _Fields, xid: int | None) -> Type:
    return Type(fields.int32(), fields.text() or "pg_catalog", fields.text(), xid)


def _origin(fields: _Fields, xid: int | None) -> Origin:
    (lsn,) = fields.unpack(_LSN)
    return Origin(lsn, fields.text())


def _truncate(fields: _Fields, xid: int | None) -> Truncate:
    count, options = fields.int32(), fields.int8()
    return Truncate(tuple(fields.int32() for _ in range(count)), bool(options & 1), bool(options & 2), xid)


def _logical(fields: _Fields, xid: int | None) -> LogicalMessage:
    transactional = bool(fields.int8() & 1)
    (lsn,) = fields.unpack(_LSN)
    return LogicalMessage(transactional, lsn, fields.text(), fields.content(), xid)


def _stream_start(fields: _Fields, xid: int | None) -> StreamStart:
    return StreamStart(fields.int32(), bool(fields.int8()))


def _stream_stop(fields: _Fields, xid: int | None) -> StreamStop:
    return StreamStop()


def _stream_commit(fields: _Fields, xid: int | None) -> StreamCommit:
    top = fields.int32()
    fields.int8()
    return StreamCommit(top, *fields.unpack(_COMMIT))


def _stream_abort(fields: _Fields, xid: int | None) -> StreamAbort:
    return StreamAbort(fields.int32(), fields.int32())


_BEGIN, _COMMIT, _COLUMN = struct.Struct("!QqI"), struct.Struct("!QQq"), struct.Struct("!Ii")
_LSN = struct.Struct("!Q")

_WITH_XID: Final = frozenset({b"R", b"Y", b"T", b"M"})
"""Kinds of messages that begin with the id of their (sub)transaction within a part of a streamed transaction."""

_DECODERS: Final[Mapping[bytes, _Decoder]] = {
    b"B": _begin,
    b"C": _commit,
    b"R": _relation,
    b"Y": _type,
    b"O": _origin,
    b"T": _truncate,
    b"M": _logical,
    b"S": _stream_start,
    b"E": _stream_stop,
    b"c": _stream_commit,
    b"A": _stream_abort,
}
