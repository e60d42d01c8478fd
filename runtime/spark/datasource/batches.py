"""What is decided of the batches of one query: one small record each, and who may write under which name.

A batch is *decided* by creating its record, which names the prepared work that shall become visible. Nothing was
visible before, and everything the record names will be, whoever has to do it. An attempt at a part of a batch first
*claims* the lowest free index of that part; names that systems outside know the attempt by are made of the index.

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
"""How many records are kept: as many batches as Spark by default remembers itself."""


class Record(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """What a batch's output is: `settled` if all of it is visible, `withdrawn` if none of it ever will be."""

    query: str
    batch: int
    work: tuple[Committable, ...]
    state: State


class Batches:
    """The records of a query on a storage that others can read; safe to use from any process.

    Raises:
        ConfigError: the storage cannot decide.
    """

    def __init__(self, storage: CheckpointStorage, query: str) -> None:
        if storage.decisions is None:
            raise ConfigError(
                f"{storage.url} cannot keep the decisions of a query, as it creates no file exclusively; expected a "
                "directory or s3://; name one by the option decisions"
            )
        self._decisions = storage.decisions
        self._blobs = storage.blobs
        self._query = query

    def decided(self, batch: int) -> Record | None:
        """The record of a batch that shall become or is visible.

        Raises:
            StateFormatError: a newer version wrote it.
            UnavailableError: the storage did not answer.
        """
        found = self._read(batch)
        record = None if found is None else _decoded(found)
        return None if record is None or record.state == "withdrawn" else record

    def claim(self, batch: int, *, part: int, most: int) -> int:
        """The lowest index that no attempt at this part of the batch has; it is the caller's from now on.

        Raises:
            UnavailableError: there is none left, or the storage did not answer.
        """
        for index in range(most):
            if self._decisions.create(f"{self._folder(batch)}claim-{part}-{index}", b""):
                return index
        raise UnavailableError(
            f"batch {batch} of query {self._query}: {most} attempts at part {part} came to nothing, so all of its "
            "names are taken; find out what kills them, then raise the option attempts"
        )

    def decide(self, batch: int, work: tuple[Committable, ...]) -> Record:
        """Make `work` the batch's output, unless it has one already; returns what it is. Durable on return.

        Raises:
            UnavailableError: the storage did not answer; asking again tells what it is.
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
                f"batch {batch} of query {self._query}: its record was there and is gone; leave the directory of the "
                "decisions to the query"
            )
        return _decoded(before)

    def conclude(self, record: Record, state: State) -> None:
        """Note what became of a decided batch; somebody may have been first to say the same.

        Raises:
            UnavailableError: the storage did not answer.
        """
        found = self._read(record.batch)
        if found is not None and _decoded(found) == record:
            after = msgspec.structs.replace(record, state=state)
            self._decisions.swap(self._name(record.batch), found.tag, msgspec.msgpack.encode(after))

    def forget(self, batch: int) -> None:
        """Remove what nobody will ask for any more now that `batch` is settled."""
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
