"""The pipeline record `latest`, which changes atomically: owner, status, retained checkpoints."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tidegate.backends.spi import Decisions
from tidegate.errors import StateFormatError
from tidegate.ids import Branch, CheckpointId, LineageId, PipelineId
from tidegate.runtime.checkpoint.archive import Retained
from tidegate.twophase.fencing import Lease

__all__ = ["VERSION", "Record", "Status", "read_record", "record_name"]

Status = Literal["running", "stopped", "finished", "canceled", "failed"]

VERSION: Final = 1


class Record(msgspec.Struct, frozen=True):
    """The content of `latest`."""

    version: int
    lineage: LineageId
    branch: Branch
    status: Status
    lease: Lease
    newest_id: CheckpointId
    """This lineage has used no checkpoint number greater than this one plus one."""
    retained: tuple[Retained, ...] = ()
    """Decided checkpoints, oldest first; the last one is the newest."""
    renewals: int = 0

    def passes_over(self, checkpoint: CheckpointId) -> bool:
        """Whether later runs will not reuse this checkpoint number, even if this run changes nothing more."""
        return checkpoint <= self.newest_id + 1


def read_record(decisions: Decisions, pipeline: PipelineId) -> tuple[Record | None, str | None]:
    """The record of a pipeline and the tag that a swap of it needs; None if there is no record.

    Raises:
        StateFormatError: another version wrote it.
    """
    name = record_name(pipeline)
    decision = decisions.read(name)
    if decision is None:
        return None, None
    try:
        record = msgspec.msgpack.decode(decision.data, type=Record)
    except msgspec.DecodeError as error:
        raise StateFormatError(f"{name} was not written by this version of tidegate: {error}") from error
    if record.version > VERSION:
        raise StateFormatError(
            f"{name} is of version {record.version}, newer than supported {VERSION}; upgrade tidegate"
        )
    return record, decision.tag


def record_name(pipeline: PipelineId) -> str:
    """Where the record of a pipeline is."""
    return f"{pipeline}/latest"
