"""Enumerator of the Postgres source: assigns the chunks of the first load, then the log.

Each chunk is read in a snapshot that a session of the enumerator exports. So the enumerator knows the transactions
that the read has seen, for any reader, and compares the log with them later. An interrupted chunk is continued after its
last key, in another snapshot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from tidegate.cdc.postgres.log_reader import LogPosition
from tidegate.cdc.postgres.split import Chunk, KeyText, LoadedChunks, Log, PostgresSplit, TableLayout
from tidegate.cdc.postgres.visibility import TransactionView
from tidegate.connectors.spi import EnumeratorContext, SplitEnumerator
from tidegate.errors import StateFormatError
from tidegate.ids import CheckpointId, SplitId

if TYPE_CHECKING:
    from tidegate.cdc.postgres.server import ExportedSnapshot, Server

__all__ = ["PostgresEnumerator", "Start"]

_LOOK_MS: Final = 100
"""The retry interval when a snapshot cannot be used yet."""


class _Range(msgspec.Struct, array_like=True):
    """Keys above `above` and up to `upto` of one table. Without a view it has not been read."""

    number: int
    above: KeyText | None
    upto: KeyText | None
    view: TransactionView | None = None
    """The view of its read, set when it is assigned to a reader."""


class _Table(msgspec.Struct, array_like=True):
    """The planned chunks of a table; its ranges are contiguous."""

    layout: TableLayout
    ranges: list[_Range]

    @property
    def planned(self) -> bool:
        """Whether the last range goes to the end of the table."""
        return bool(self.ranges) and self.ranges[-1].upto is None


class Start(msgspec.Struct, frozen=True, array_like=True):
    """The start of a slot's log, and the transactions before it, which the log does not contain."""

    slot: str
    lsn: int
    view: TransactionView
    claim: str = ""
    """The claim of the slot, dropped after the first checkpoint."""


class _State(msgspec.Struct, tag_field="v", tag=1):
    start: Start
    tables: list[_Table]
    log: Log | None = None
    """The split of the log, until it is assigned."""
    loaded: bool = False
    """Whether the load is complete."""
    ranges: int = 0
    """The number of chunks planned so far; numbers the next one."""


class PostgresEnumerator(SplitEnumerator[PostgresSplit]):
    """Plans a chunk when a reader requests a split.

    Args:
        context: The connection to the readers.
        server: The database and the slot.
        restored: The snapshot of an earlier enumerator.
        follows: Whether the log is read after the load; otherwise the source ends after the load.

    Raises:
        StateFormatError: the snapshot was written by another version or for another source.
    """

    def __init__(
        self,
        context: EnumeratorContext[PostgresSplit],
        server: Server,
        restored: bytes | None,
        *,
        follows: bool = True,
    ) -> None:
        self._context = context
        self._server = server
        self._follows = follows
        self._restored = None if restored is None else _decode(restored)
        self._unread: deque[tuple[_Table, _Range]] = deque()
        """Ranges that an earlier run planned and did not read to their ends."""
        self._waiting: list[int] = []
        self._reading: dict[int, ExportedSnapshot] = {}
        """The exported snapshot of each reader; it must exist until the reader requests the next chunk."""

    def start(self) -> None:
        """Create the slot and the publication at the first start.

        Raises:
            ConfigError: the database does not meet the requirements; the message has the remedy.
            UnavailableError: the server did not answer.
        """
        if self._restored is not None:
            self._state = self._restored
            return
        start, layouts = self._server.begin()
        self._state = _State(start, [_Table(layout, []) for layout in layouts])

    def request(self, reader: int) -> None:
        """Assign a chunk to the reader, or the log if all chunks are read.

        Raises:
            UnavailableError: the server did not answer.
        """
        if exported := self._reading.pop(reader, None):
            exported.close()
        self._waiting.append(reader)
        self._hand_out()

    def give_back(self, splits: Sequence[PostgresSplit]) -> None:
        """Take back the splits of readers: chunks with the last key that was read, or the log.

        Raises:
            ConfigError: the slot does not have the log from that position any more.
        """
        state = self._state
        unfinished = {split.id: split.part for split in splits}
        state.log = next((part for part in unfinished.values() if isinstance(part, Log)), state.log)
        for table in state.tables:
            table.ranges = [part for each in table.ranges for part in self._parts(table, each, unfinished)]
            self._unread.extend((table, each) for each in table.ranges if each.view is None)
        self._server.resume(state.start.slot, state.log.position.end_lsn if state.log else state.start.lsn)

    def snapshot(self, checkpoint: CheckpointId) -> bytes:
        """The plan, and the log until it is assigned."""
        return msgspec.msgpack.encode(self._state)

    def pending(self) -> list[SplitId]:
        """The log until it is assigned. Chunks become splits when they are assigned."""
        return [] if self._state.log is None else [PostgresSplit.log(self._state.log).id]

    @property
    def discovery_interval_ms(self) -> int | None:
        """The retry interval for readers that wait for a chunk."""
        return None if self._state.loaded else _LOOK_MS

    def discover(self) -> None:
        """No discovery; `discovered` serves the waiting readers."""

    def discovered(self, found: None) -> None:
        """Assign chunks to waiting readers."""
        self._hand_out()

    def close(self) -> None:
        """Close all sessions."""
        for exported in self._reading.values():
            exported.close()
        self._server.close()

    def _hand_out(self) -> None:
        while self._waiting:
            unplanned = next((table for table in self._state.tables if not table.planned), None)
            table = self._unread[0][0] if self._unread else unplanned
            if table is None:
                self._finish_load()
                return
            exported = self._server.export(self._state.start.view, table.layout)
            if exported is None:
                return  # it is assigned later
            reader = self._waiting.pop(0)
            self._reading[reader] = exported
            each = self._unread.popleft()[1] if self._unread else self._planned(table, exported)
            each.view = exported.view
            chunk = Chunk(table.layout, each.above, each.upto, exported.name, exported.view)
            self._context.assign(reader, [PostgresSplit.chunk(each.number, chunk)])

    def _planned(self, table: _Table, exported: ExportedSnapshot) -> _Range:
        above = table.ranges[-1].upto if table.ranges else None
        upto = self._server.plan(exported, table.layout, above)
        table.ranges.append(_Range(self._number(), above, upto))
        return table.ranges[-1]

    def _finish_load(self) -> None:
        """Assign the log to a reader, once no reader has a chunk any more."""
        if self._reading:
            return
        state = self._state
        if not state.loaded:
            state.loaded = True
            if self._follows:
                loaded = tuple(
                    LoadedChunks(table.layout, tuple(_merged(table.ranges))) for table in state.tables
                )
                complete_at = self._server.position()
                state.log = Log(
                    state.start.slot, LogPosition(state.start.lsn), loaded, complete_at, state.start.claim
                )
            state.tables = []
        if state.log is not None:
            log, state.log = state.log, None
            self._context.assign(self._waiting.pop(0), [PostgresSplit.log(log)])
        if not self._follows:
            while self._waiting:
                self._context.no_more_splits(self._waiting.pop())

    def _parts(
        self, table: _Table, whole: _Range, unfinished: dict[SplitId, Chunk | Log]
    ) -> Iterator[_Range]:
        """A range after a restart: the rest of it is read in another snapshot."""
        left = unfinished.get(PostgresSplit.name_of(table.layout, whole.number))
        if not isinstance(left, Chunk):
            yield whole
            return
        if left.above != whole.above:
            yield _Range(self._number(), whole.above, left.above, whole.view)
        yield _Range(self._number(), left.above, whole.upto)

    def _number(self) -> int:
        self._state.ranges += 1
        return self._state.ranges


def _merged(ranges: Sequence[_Range]) -> Iterator[tuple[KeyText | None, TransactionView]]:
    """The last key and the view of each range; neighbours with the same view are one."""
    for each, following in zip(ranges, [*ranges[1:], None], strict=True):
        if each.view is not None and (following is None or following.view != each.view):
            yield each.upto, each.view


def _decode(restored: bytes) -> _State:
    try:
        return msgspec.msgpack.decode(restored, type=_State)
    except msgspec.MsgspecError as error:
        raise StateFormatError(
            f"the state of a Postgres source cannot be read ({error}); expected version 1; restore an older checkpoint, or "
            "run the version that wrote it"
        ) from error
