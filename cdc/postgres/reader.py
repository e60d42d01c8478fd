"""Reader of the Postgres source: reads chunks of tables, then the log, without blocking.

The position of a chunk is the last key that was polled, that of the log the last change. A position is confirmed to the
slot only when the checkpoint that contains it is settled.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tidegate.cdc.change import Op
from tidegate.cdc.postgres.log_reader import LogChange, LogEvent, LogReader, Transaction
from tidegate.cdc.postgres.pgoutput import format_lsn
from tidegate.cdc.postgres.split import Chunk, Log, PostgresSplit
from tidegate.cdc.postgres.tables import CopyDecoder, LoadFilter, ReadTable, rows_of
from tidegate.cdc.records import ChangeDeserializer, ChangeOrigin
from tidegate.connectors.base.idleness import Idleness
from tidegate.connectors.spi import NotYet, Poll, SourceReader
from tidegate.elements import Batch, RowKind
from tidegate.errors import ConfigError
from tidegate.ids import CheckpointId

if TYPE_CHECKING:
    from tidegate.cdc.postgres._client import CopyStream, ReplicationStream
    from tidegate.cdc.postgres.connection import Connections

__all__ = ["PostgresReader"]

_PAUSES_MS: Final = (1, 1, 2, 3, 5, 8, 10)
"""The pause of polling after this many polls without data."""

_EPOCH_2000_MS: Final = 946_684_800_000


class PostgresReader(SourceReader[PostgresSplit]):
    """Reads the splits of one subtask.

    Args:
        connections: The connections to the server.
        deserializer: Converts rows and changes to records.
        skip_truncate: Whether a TRUNCATE that cannot be represented is skipped.
    """

    def __init__(
        self, connections: Connections, deserializer: ChangeDeserializer, *, skip_truncate: bool
    ) -> None:
        self._connections = connections
        self._deserializer = deserializer
        self._skip_truncate = skip_truncate
        self._chunks: deque[PostgresSplit] = deque()
        self._chunk: _ChunkRead | None = None
        self._log: _LogRead | None = None
        self._noted: dict[CheckpointId, int] = {}
        self._idleness = Idleness()
        self._fruitless = 0

    def add_splits(self, splits: Sequence[PostgresSplit]) -> None:
        """Add chunks or the log."""
        for split in splits:
            if isinstance(split.part, Log):
                self._log = _LogRead(self._connections, split, split.part)
            else:
                self._chunks.append(split)

    def no_more_splits(self) -> None:
        """No more splits: finish when the assigned chunks are read."""
        self._idleness.complete = True

    def poll(self, limit: int) -> Poll:
        """The next rows of a chunk, or the next changes.

        Raises:
            ConfigError: a TRUNCATE cannot be represented.
            RecordError: a value cannot be read.
            UnavailableError: the server ended the connection.
        """
        if self._chunk is None and self._chunks:
            split = self._chunks.popleft()
            assert isinstance(split.part, Chunk)
            self._chunk = _ChunkRead(self._connections, split, split.part)
        if self._chunk is None and self._log is None:
            return self._idleness.poll()
        if (ended := self._idleness.ended()) is not None:
            return ended
        batch = self._poll_chunk(self._chunk, limit) if self._chunk is not None else self._poll_log(limit)
        if batch is not None:
            self._fruitless = 0
            return batch
        self._fruitless = min(self._fruitless + 1, len(_PAUSES_MS))
        return NotYet(_PAUSES_MS[self._fruitless - 1])

    def snapshot(self, checkpoint: CheckpointId) -> list[PostgresSplit]:
        """The rest of each split."""
        splits = list(self._chunks)
        if self._chunk is not None:
            splits.append(self._chunk.split)
        if self._log is not None:
            splits.append(self._log.split)
            self._noted[checkpoint] = self._log.reader.position.end_lsn
        return splits

    def settled(self, checkpoint: CheckpointId) -> None:
        """Confirm the position of the checkpoint to the slot."""
        for earlier in [noted for noted in self._noted if noted < checkpoint]:
            del self._noted[earlier]
        position = self._noted.pop(checkpoint, None)
        if position is not None and self._log is not None:
            self._log.settled(position)

    def close(self) -> None:
        """Disconnect."""
        for each in (self._chunk, self._log):
            if each is not None:
                each.close()
        self._connections.close()

    def _poll_chunk(self, chunk: _ChunkRead, limit: int) -> Batch | None:
        rows = chunk.read(limit)
        if rows is None:
            chunk.close()
            self._chunk = None
            return None
        return Batch(self._deserializer.loaded(chunk.table.captured, rows)) if rows else None

    def _poll_log(self, limit: int) -> Batch | None:
        log = self._log
        assert log is not None
        values: list[Any] = []
        kinds: list[RowKind] = []
        times: list[int] = []
        transaction, origin = None, ChangeOrigin()
        for event in log.read(limit):
            if isinstance(event, LogChange):
                if event.transaction is not transaction:
                    transaction = event.transaction
                    origin = _origin(transaction)
                for value, kind in self._records(log, event, origin):
                    values.append(value)
                    kinds.append(kind)
                    times.append(origin.ts_ms or 0)
                if len(values) >= limit:
                    break
        if not values:
            return None
        return Batch(values, times, kinds=kinds if any(kinds) else None)

    def _records(self, log: _LogRead, change: LogChange, origin: ChangeOrigin) -> Any:
        table: ReadTable = change.table.about
        transaction = change.transaction
        origin = origin._replace(position=(transaction.commit_lsn, change.number))
        if change.op is Op.TRUNCATE:
            if log.filter is not None and log.filter.truncated(table, transaction):
                return ()
            return self._truncated(table, origin)
        rows = rows_of(change, table.key_places)
        if log.filter is not None:
            rows = log.filter.missing(table, rows, transaction)
        return self._deserializer.changed(table.captured, rows, origin)

    def _truncated(self, table: ReadTable, origin: ChangeOrigin) -> Any:
        records = self._deserializer.truncated(table.captured, origin)
        if records is None and not self._skip_truncate:
            raise ConfigError(
                f"table {table.captured.id} was truncated at {format_lsn(origin.position[0])}, which no row can represent; read "
                "change events instead of rows, or set on_truncate to 'skip' and empty the target yourself"
            )
        return records or ()


class _ChunkRead:
    """A chunk that is being read."""

    def __init__(self, connections: Connections, split: PostgresSplit, chunk: Chunk) -> None:
        self._split, self._part = split, chunk
        self.table = connections.table(chunk.layout)
        self._decode = CopyDecoder(connections.types, chunk.layout)
        self._stream: CopyStream = connections.copy(chunk)

    @property
    def split(self) -> PostgresSplit:
        """The rest of the split."""
        return msgspec.structs.replace(self._split, part=self._part)

    def read(self, limit: int) -> list[tuple[Any, ...]] | None:
        """The rows that have arrived; None at the end."""
        received = self._stream.receive(limit)
        if not received:
            return None if received is None else []
        rows = self._decode.rows(received)
        self._part = msgspec.structs.replace(self._part, above=self._decode.key(received[-1]))
        return rows

    def close(self) -> None:
        """Disconnect."""
        self._stream.close()


class _LogRead:
    """The log that is being read."""

    def __init__(self, connections: Connections, split: PostgresSplit, log: Log) -> None:
        self._connections = connections
        self._split, self._part = split, log
        self.reader = LogReader(log.position, connections.log_table)
        self.filter = LoadFilter(connections.types, log.loaded) if log.loaded else None
        """The loaded chunks, until the log has passed the load."""
        self._unclaimed = False
        self._stream: ReplicationStream | None = None
        self._events: Iterator[LogEvent] = iter(())

    @property
    def split(self) -> PostgresSplit:
        """The rest of the split."""
        loaded = self._part.loaded if self.filter is not None else ()
        part = msgspec.structs.replace(self._part, position=self.reader.position, loaded=loaded)
        return msgspec.structs.replace(self._split, part=part)

    def read(self, limit: int) -> Iterator[LogEvent]:
        """Events that have arrived; read them one by one, since each advances the position."""
        if self._stream is None:
            self._stream = self._connections.replicate(self._part)
        first = next(self._events, None)
        if first is None:
            payloads = self._stream.receive(limit)
            if not payloads:
                self.reader.advance(self._stream.server_position)
            self._events = self.reader.events(payloads)
            first = next(self._events, None)
        if self.filter is not None and self.reader.position.end_lsn >= self._part.complete_at:
            self.filter = None
        return iter(()) if first is None else itertools.chain((first,), self._events)

    def settled(self, position: int) -> None:
        """Confirm a position to the slot."""
        if self._stream is not None:
            self._stream.confirm(position)
        if self._part.claim and not self._unclaimed:
            self._connections.drop_claim(self._part.claim)
            self._unclaimed = True

    def close(self) -> None:
        """Disconnect."""
        if self._stream is not None:
            self._stream.close()


def _origin(transaction: Transaction) -> ChangeOrigin:
    """The origin of the changes of a transaction, but for their position."""
    return ChangeOrigin(
        (),
        transaction.committed_at // 1_000 + _EPOCH_2000_MS,
        str(transaction.xid),
        {"connector": "postgresql", "lsn": transaction.commit_lsn},
    )
