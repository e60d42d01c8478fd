"""Checkpoint manifest: the metadata of one checkpoint, the same for every executor.

A file `_metadata` is a magic word, a version, a checksum and a msgpack body. Its size depends on the number of
operators, subtasks and log segments, never on the size of the state.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec
import xxhash

from tidegate.backends.spi import Chunk, KeyedHandle, StoredChunk
from tidegate.errors import InternalError, StateCorruptError, StateFormatError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId
from tidegate.runtime.graph.shapes import Shape
from tidegate.runtime.operators.event_time import EventTime
from tidegate.runtime.operators.operator_list import OperatorList
from tidegate.twophase.spi import Committable

__all__ = [
    "VERSION",
    "Manifest",
    "OperatorState",
    "Table",
    "Unkeyed",
    "Unsettled",
    "check",
    "chunks_of",
    "claims_folder",
    "decode",
    "encode",
    "files_of",
    "metadata_name",
    "settled_name",
    "unkeyed_chunks",
]

Unkeyed: TypeAlias = Literal["list", "splits", "enumerator", "writers"]

VERSION = 2
_MAGIC = b"TGMD"
_HEAD = struct.Struct(">4sHQ")


class OperatorState(msgspec.Struct, frozen=True):
    """All subtasks of one operator."""

    uid: OperatorUid
    name: str
    parallelism: int
    max_parallelism: int
    keyed: tuple[KeyedHandle, ...] = ()
    coordinator: bytes | None = None
    splits: tuple[bytes, ...] = ()
    writers: tuple[bytes, ...] = ()
    lists: tuple[tuple[OperatorList, ...], ...] = ()
    """Operator state by subtask, in the order of subtasks."""
    in_flight: tuple[Chunk, ...] = ()
    """In-flight records of subtasks, overtaken by the barriers of an unaligned checkpoint."""
    times: tuple[EventTime, ...] = ()
    """Watermarks by subtask."""
    shape: Shape | None = None
    """The step that its uid named; None in checkpoints of versions that did not store it."""

    @property
    def stateless(self) -> bool:
        """Whether it has no state to restore."""
        kept = self.keyed or self.splits or self.writers or self.lists or self.in_flight
        return self.coordinator is None and not kept

    @property
    def by_key_group(self) -> bool:
        """Whether it has items that know only their key group, so their number of key groups has to stay."""
        return any(held.groups for lists in self.lists for held in lists)


class Unsettled(msgspec.Struct, frozen=True):
    """Work that a decided checkpoint promised to make visible."""

    checkpoint: CheckpointId
    committables: tuple[Committable, ...]


class Table(msgspec.Struct, frozen=True):
    """A savepoint file with the unkeyed state of an operator; for operator state, of one name."""

    operator: OperatorUid
    what: Unkeyed
    name: str
    chunk: StoredChunk


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything needed to resume from one checkpoint."""

    pipeline: PipelineId
    lineage: LineageId
    branch: Branch
    run: RunId
    checkpoint: CheckpointId
    parent: CheckpointId | None
    """The decided checkpoint before it."""
    created_ms: int
    operators: tuple[OperatorState, ...]
    unsettled: tuple[Unsettled, ...]
    batch: bool = False
    """Whether it is the end of a batch job."""
    tables: tuple[Table, ...] = ()
    """In a canonical savepoint: the place of state without keys, instead of with its operator."""
    claimed: tuple[str, ...] = ()
    """Metadata of a claimed snapshot that this checkpoint made the pipeline's own; it is deleted with this checkpoint."""

    def operator(self, uid: OperatorUid) -> OperatorState | None:
        """The state of one operator, if the program had it."""
        return next((operator for operator in self.operators if operator.uid == uid), None)


def metadata_name(run: RunId, checkpoint: CheckpointId) -> str:
    """Where the metadata of a checkpoint is."""
    return f"{run}/chk-{checkpoint}/_metadata"


def settled_name(run: RunId, checkpoint: CheckpointId) -> str:
    """What exists once all output of a checkpoint is visible."""
    return f"{run}/chk-{checkpoint}/_settled"


def claims_folder(run: RunId, checkpoint: CheckpointId) -> str:
    """Where executions of the checkpoint's tasks say that something is theirs."""
    return f"{run}/claims/{checkpoint}/"


def encode(manifest: Manifest) -> bytes:
    """The bytes of a metadata file; a manifest that breaks an invariant is never written."""
    check(manifest)
    body = msgspec.msgpack.encode(manifest)
    return _HEAD.pack(_MAGIC, VERSION, xxhash.xxh3_64_intdigest(body)) + body


def decode(data: bytes, name: str) -> Manifest:
    """Read a metadata file.

    Raises:
        StateCorruptError: it is damaged.
        StateFormatError: it is of a newer version.
    """
    if len(data) < _HEAD.size or data[:4] != _MAGIC:
        raise StateCorruptError(f"{name} is not checkpoint metadata; restore an older checkpoint")
    _, version, checksum = _HEAD.unpack_from(data)
    if version > VERSION:
        raise StateFormatError(
            f"{name}: metadata version {version} is newer than supported {VERSION}; upgrade tidegate or restore an older checkpoint"
        )
    body = data[_HEAD.size :]
    if xxhash.xxh3_64_intdigest(body) != checksum:
        raise StateCorruptError(
            f"{name} is damaged: its checksum does not match; restore an older checkpoint"
        )
    return msgspec.msgpack.decode(body, type=Manifest)


def files_of(manifest: Manifest) -> frozenset[str]:
    """Every stored file the checkpoint refers to, besides its metadata."""
    keyed = (chunk for operator in manifest.operators for chunk in stored(operator.keyed))
    unkeyed = (chunk for operator in manifest.operators for chunk in unkeyed_chunks(operator))
    return frozenset((*manifest.claimed, *keyed, *(c.name for c in unkeyed if isinstance(c, StoredChunk))))


def chunks_of(manifest: Manifest) -> set[Chunk]:
    """Every piece of state the checkpoint refers to, once."""
    chunks = {chunk for each in manifest.operators for handle in each.keyed for chunk in handle.chunks}
    return chunks.union(*map(unkeyed_chunks, manifest.operators))


def unkeyed_chunks(operator: OperatorState) -> Iterator[Chunk]:
    """Where the operator lists are that do not stand in the metadata, and what was on its way."""
    yield from (piece.chunk for lists in operator.lists for held in lists for piece in held.pieces or ())
    yield from operator.in_flight


def stored(handles: Iterable[KeyedHandle]) -> Iterable[str]:
    """The names of the stored files behind keyed handles."""
    return (chunk.name for handle in handles for chunk in handle.chunks if isinstance(chunk, StoredChunk))


def check(manifest: Manifest) -> None:
    """Hold the manifest against its invariants.

    Raises:
        InternalError: one is broken; nothing may be decided on it.
    """
    for invariant in (key_groups_are_covered_once, uids_are_unique, work_is_not_from_the_future):
        broken = invariant(manifest)
        if broken:
            raise InternalError(f"checkpoint {manifest.checkpoint} breaks {invariant.__name__}: {broken}")


def key_groups_are_covered_once(manifest: Manifest) -> str | None:
    """Keyed handles of an operator cover all key groups, none twice."""
    for operator in manifest.operators:
        ranges = sorted((handle.key_groups.first, handle.key_groups.last) for handle in operator.keyed)
        bounds = [0, *(bound for pair in ranges for bound in pair), operator.max_parallelism]
        if ranges and any(left != right for left, right in zip(bounds[::2], bounds[1::2], strict=True)):
            return f"{operator.uid} has {ranges} of {operator.max_parallelism} key groups"
    return None


def uids_are_unique(manifest: Manifest) -> str | None:
    """No operator is named twice."""
    uids = [operator.uid for operator in manifest.operators]
    return f"{uids}" if len(set(uids)) != len(uids) else None


def work_is_not_from_the_future(manifest: Manifest) -> str | None:
    """Unsettled work belongs to this checkpoint or an earlier one, in ascending order."""
    numbers = [unsettled.checkpoint for unsettled in manifest.unsettled]
    return (
        f"{numbers}"
        if numbers != sorted(set(numbers)) or any(n > manifest.checkpoint for n in numbers)
        else None
    )
