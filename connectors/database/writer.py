"""Writers of the database sink: into a staging table, a prepared transaction, or directly into the table.

A writer whose connection broke during an epoch has lost rows of the epoch. It then refuses all calls, so that its subtask is
restored and the rows are written again.
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import repeat
from typing import Any, Final

import msgspec

from tidegate.clock import new_id
from tidegate.connectors.database.bookkeeping import Bookkeeping
from tidegate.connectors.database.rows import FoldedRows, RowReader
from tidegate.connectors.database.session import ColumnInfo, PreparedTransactions, Session
from tidegate.connectors.database.statements import HEAD, Chunk, Shape, apply, qualified
from tidegate.elements import Batch, RowKind
from tidegate.errors import ConfigError, RecordError, UnavailableError
from tidegate.faults import point
from tidegate.ids import CheckpointId
from tidegate.twophase.naming import WorkName
from tidegate.twophase.spi import SinkWriter, WriterContext

__all__ = ["DatabaseWork", "DirectWriter", "PreparedWriter", "StagedWriter", "decode_work"]

_LONGEST_GID: Final = 199
"""The maximum length of the name of a prepared transaction in Postgres, in bytes."""
_ID_DIGITS: Final = 15
"""Hexadecimal digits of an id: a positive number of 60 bits, which every dialect can store."""


class DatabaseWork(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="v", tag=1):
    """A committable's payload; `v` versions the encoding."""

    id: int
    name: str
    shape: Shape
    stage: str = ""
    """The staging table; empty if the rows are in a prepared transaction, or visible."""
    chunks: tuple[Chunk, ...] = ()
    gid: str = ""
    """The name of the prepared transaction."""
    gone: str = ""
    """The table of positions of deleted keys, which are removed at the commit."""


def decode_work(payload: bytes) -> DatabaseWork:
    """The payload of a committable; raises `msgspec.MsgspecError` if another version wrote it."""
    return msgspec.msgpack.decode(payload, type=DatabaseWork)


class _Writer(SinkWriter):
    """Base of all writers: converts records and buffers rows."""

    def __init__(
        self,
        session: Session,
        books: Bookkeeping,
        shape: Shape,
        columns: list[ColumnInfo],
        context: WriterContext,
        buffer_rows: int,
    ) -> None:
        self._session = session
        self._books = books
        self._shape = shape
        self._context = context
        self._buffer_rows = buffer_rows
        self._shown = f"{shape.table} in {session.shown}"
        self._reader = RowReader(self._shown, columns, (*shape.key, *shape.position))
        self._rows: list[tuple[Any, ...]] = []
        position = [shape.columns.index(name) for name in shape.position]
        self._folded = FoldedRows(shape.places, position) if shape.key else None
        self._work = 0
        self._records = 0
        self._chunks: list[Chunk] = []
        self._broken: Exception | None = None

    def write(self, batch: Batch) -> None:
        """Write a batch, all or nothing.

        Raises:
            RecordError: a record does not match the table.
            UnavailableError: the database does not answer, or did not since the last checkpoint.
        """
        self._refuse_if_broken()
        kinds = batch.kinds
        if self._folded is None and kinds is not None and any(kinds):
            change = next(kind for kind in kinds if kind)
            raise RecordError(
                f"table {self._shown}: a record is a change of kind {change}; expected insertions; give the sink a key"
            )
        rows = self._reader.read_all(batch.values, kinds)
        self._records += len(rows)
        if self._folded is None:
            self._rows += rows
            if len(self._rows) >= self._buffer_rows:
                self._guarded(self._flush)
            return
        add, fits = self._folded.add, self._folded.fits
        for row, kind in zip(rows, kinds or repeat(RowKind.INSERT), strict=False):
            if not fits(row) or len(self._folded) >= self._buffer_rows:
                self._guarded(self._flush)
            add(row, kind)

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
        """Prepare the written rows: durable, but not visible unless the mode says so.

        Raises:
            FencedError: the operator has a newer owner.
            UnavailableError: the database does not answer; the rows of this epoch must be written again.
        """
        self._refuse_if_broken()
        if not self._records:
            return None
        point("sink.before-flush")
        self._guarded(self._flush)
        who = self._context
        name = WorkName(
            who.lineage, int(who.branch), who.subtask.index, int(checkpoint), who.attempt, term=int(who.term)
        )
        work = self._guarded(lambda: self._finish(name))
        point("sink.after-flush")
        records, self._records, self._work, self._chunks = self._records, 0, 0, []
        if work is None:
            return None
        return msgspec.msgpack.encode(work), f"work {work.name} of table {self._shown}", records

    def close(self) -> None:
        """Disconnect; unprepared rows are rolled back."""
        self._session.close()

    def _refuse_if_broken(self) -> None:
        if self._broken is not None:
            raise UnavailableError(
                f"table {self._shown}: rows of this epoch were lost with the connection ({self._broken}); the subtask is restored"
            ) from self._broken

    def _guarded(self, act: Any) -> Any:
        """Run statements; an error may leave the connection within a transaction."""
        try:
            return act()
        except Exception as error:
            self._broken = error
            raise

    def _flush(self) -> None:
        """Send the buffered rows."""
        if self._rows or self._folded:
            first, self._work = not self._work, self._work or int(new_id(_ID_DIGITS), 16)
            self._send(first)
            self._rows = []
            if self._folded is not None:
                self._folded.clear()

    def _staged(self, chunk: int) -> list[tuple[Any, ...]]:
        """The buffered rows in the form of the staging table."""
        work = self._work
        return (
            [(work, *row) for row in self._rows]
            if self._folded is None
            else list(self._folded.staged(work, chunk))
        )

    def _chunk(self) -> Chunk:
        assert self._folded is not None
        return Chunk(self._folded.deletes(), tuple(self._folded.unchanged()))

    @abstractmethod
    def _send(self, first: bool) -> None: ...

    @abstractmethod
    def _finish(self, name: WorkName) -> DatabaseWork | None: ...


class StagedWriter(_Writer):
    """Writes rows to the staging table. Nothing of the target table is locked before the commit."""

    def __init__(self, stage: str, *others: Any) -> None:
        super().__init__(*others)
        self._stage = stage
        self._into = ""
        self._columns = (*(HEAD if self._folded is not None else HEAD[:1]), *self._shape.columns)
        self._fence = self._books.ownership.fence_now(self._context.term)

    def _send(self, first: bool) -> None:
        if first:
            self._into = self._session.epoch_table(self._stage)
        self._session.load(self._into, self._columns, self._staged(len(self._chunks)), self._shown)
        if self._folded is not None:
            self._chunks.append(self._chunk())

    def _finish(self, name: WorkName) -> DatabaseWork | None:
        if not self._work:
            return None  # changes without effect, such as UPDATE_BEFORE
        self._session.keep_epoch(self._stage)
        self._books.ownership.check(self._fence)
        self._books.work.note(self._work, name, self._stage, self._context.clock, committed=False)
        self._session.end(commit=True)
        return DatabaseWork(self._work, name.build(), self._shape, self._stage, tuple(self._chunks))


class PreparedWriter(_Writer):
    """Inserts rows into the table, in a transaction that is prepared at the barrier. Only for insertions: a second epoch that
    updated a row of the first would wait for its commit."""

    def __init__(self, prefix: str, transactions: PreparedTransactions, *others: Any) -> None:
        super().__init__(*others)
        self._prefix = prefix
        self._transactions = transactions
        who = self._context
        longest = WorkName(
            who.lineage, 10**6, who.subtask.index, 10**9, who.attempt, term=max(1, int(who.term)) * 10**3
        )
        if len(prefix + longest.build()) > _LONGEST_GID:
            raise ConfigError(
                f"table {self._shown}: the names of prepared transactions would be longer than {_LONGEST_GID} bytes, as "
                f"{prefix + longest.build()!r}; use mode 'staged'"
            )
        self._fence = self._books.ownership.fence_now(self._context.term)

    def _send(self, first: bool) -> None:
        if first:
            self._session.begin()
        self._session.load(qualified(self._shape.table), self._shape.columns, self._rows, self._shown)

    def _finish(self, name: WorkName) -> DatabaseWork:
        self._books.ownership.check(self._fence)
        # It becomes visible with the rows, so it proves the commit when the prepared transaction does not exist any more.
        self._books.work.note(self._work, name, "", self._context.clock, committed=True)
        gid = f"{self._prefix}{name.build()}"
        self._transactions.prepare(gid)
        return DatabaseWork(self._work, name.build(), self._shape, gid=gid)


class DirectWriter(_Writer):
    """Writes visible rows; `gone` is the table of positions of deleted keys, None without positions."""

    def __init__(self, gone: str | None, interval_ms: int, *others: Any) -> None:
        super().__init__(*others)
        self._gone = gone
        self._interval_ms = interval_ms
        self._sent_at = self._context.clock.monotonic()
        self._deleted = False
        target = qualified(self._shape.table)
        self._scratch = self._session.scratch(target) if self._folded is not None else target
        self._fence = self._books.ownership.fence_now(self._context.term) if gone is not None else None

    def write(self, batch: Batch) -> None:
        """Write a batch; flushes when the interval has passed."""
        super().write(batch)
        if (self._context.clock.monotonic() - self._sent_at) * 1_000 >= self._interval_ms:
            self._guarded(self._flush)

    def _flush(self) -> None:
        super()._flush()
        self._sent_at = self._context.clock.monotonic()

    def _send(self, first: bool) -> None:
        with self._session.transaction():
            if self._folded is None:
                self._session.load(self._scratch, self._shape.columns, self._rows, self._shown)
                return
            if self._fence is not None:
                self._books.ownership.check(self._fence)
            chunk = self._chunk()
            self._session.load(self._scratch, (*HEAD, *self._shape.columns), self._staged(0), self._shown)
            apply(self._session, self._shape, self._scratch, self._work, [(0, chunk)], self._gone)
        self._deleted |= chunk.deletes

    def _finish(self, name: WorkName) -> DatabaseWork | None:
        deleted, self._deleted = self._deleted, False
        if self._gone is None or not deleted:
            return None
        # Once the checkpoint is settled, records before it are not replayed, so the positions of its deleted keys are not needed.
        return DatabaseWork(self._work, name.build(), self._shape, gone=self._gone)
