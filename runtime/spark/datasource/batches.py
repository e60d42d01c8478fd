"""Decisions about the batches of one query: one small record per batch, and claims of the names of attempts.

A batch is *decided* by creating its record, which names the prepared work that shall become visible. Nothing was
visible before, and everything that the record names will become visible, committed by any process. An attempt at a part of a batch first
*claims* the lowest free index of that part; names in external systems, such as transactional ids, contain the index.

Example:
    >>> from tidegate.backends.storage import MemoryStorage
    >>> batches = Batches(MemoryStorage(), "query")
    >>> batches.claim(7, part=0, most=4), batches.claim(7, part=0, most=4)
    (0, 1)
    >>> batches.decide(7, ()).state, batches.decided(7).state, batches.decided(8)
    ('decided', 'decided', None)
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tidegate.backends.spi import CheckpointStorage, Decision
from tidegate.errors import ConfigError, StateFormatError, UnavailableError
from tidegate.twophase.naming import escape
from tidegate.twophase.spi import Committable

__all__ = ["Batches", "Record"]

State = Literal["decided", "settled", "withdrawn"]

RETAINED: Final = 100
"""The number of records that are kept: as many batches as Spark keeps by default."""


class Record(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """The state of a batch's output: `settled` if all of it is visible, `withdrawn` if none of it will ever be."""

    query: str
    batch: int
    work: tuple[Committable, ...]
    state: State


class Batches:
    """The records of a query on a shared storage; safe to use from any process.

    Raises:
        ConfigError: the storage cannot create files exclusively.
    """

    def __init__(self, storage: CheckpointStorage, query: str) -> None:
        if storage.decisions is None:
            raise ConfigError(
                f"{storage.url} cannot keep the decisions of a query, as it creates no file exclusively; expected a "
                "directory or s3://; set the option decisions to one"
            )
        self._decisions = storage.decisions
        self._blobs = storage.blobs
        self._query = query

    def decided(self, batch: int) -> Record | None:
        """The record of a decided batch; None if it is not decided, or withdrawn.

        Raises:
            StateFormatError: a newer version wrote it.
            UnavailableError: the storage did not answer.
        """
        found = self._read(batch)
        record = None if found is None else _decoded(found)
        return None if record is None or record.state == "withdrawn" else record

    def claim(self, batch: int, *, part: int, most: int) -> int:
        """Claim the lowest free index for an attempt at this part of the batch.

        Raises:
            UnavailableError: all indexes are claimed, or the storage did not answer.
        """
        for index in range(most):
            if self._decisions.create(f"{self._folder(batch)}claim-{part}-{index}", b""):
                return index
        raise UnavailableError(
            f"batch {batch} of query {self._query}: {most} attempts at part {part} failed, so all of its "
            "names are taken; find out why they end, then increase the option attempts"
        )

    def decide(self, batch: int, work: tuple[Committable, ...]) -> Record:
        """Decide that `work` is the batch's output, unless the batch is decided already; returns the decision. Durable on return.

        Raises:
            UnavailableError: the storage did not answer; a retry returns the decision.
        """
        mine = Record(self._query, batch, work, "decided")
        before = self._read(batch)
        if before is None or _decoded(before).state == "withdrawn":
            tag = None if before is None else before.tag
            if self._decisions.swap(self._name(batch), tag, msgspec.msgpack.encode(mine)):
                return mine
            before = self._read(batch)
        if before is None:
            raise UnavailableError(
                f"batch {batch} of query {self._query}: its record was deleted while the query ran; expected no other "
                "program to change the directory of the decisions"
            )
        return _decoded(before)

    def conclude(self, record: Record, state: State) -> None:
        """Store the final state of a decided batch; another process may have stored the same.

        Raises:
            UnavailableError: the storage did not answer.
        """
        found = self._read(record.batch)
        if found is not None and _decoded(found) == record:
            after = msgspec.structs.replace(record, state=state)
            self._decisions.swap(self._name(record.batch), found.tag, msgspec.msgpack.encode(after))

    def forget(self, batch: int) -> None:
        """Remove records and claims that are not needed any more once `batch` is settled."""
        if batch >= RETAINED:
            self._blobs.delete(self._blobs.list(self._folder(batch - RETAINED)))

    def _read(self, batch: int) -> Decision | None:
        return self._decisions.read(self._name(batch))

    def _name(self, batch: int) -> str:
        return f"{self._folder(batch)}decision"

    def _folder(self, batch: int) -> str:
        return f"{escape(self._query)}/{batch:012d}/"


def _decoded(found: Decision) -> Record:
    try:
        return msgspec.msgpack.decode(found.data, type=Record)
    except msgspec.MsgspecError as error:
        raise StateFormatError(
            f"the decision of a batch cannot be read ({error}); expected version 1; run the version that wrote it"
        ) from error
