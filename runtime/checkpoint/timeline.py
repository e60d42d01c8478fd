"""Timeline of a pipeline: the contents of its retained checkpoints, and the differences between them.

Only reads: no lease is taken, nothing is written to the storage, and a running job is not affected. It may drop a checkpoint
while that is read; the error then says which are retained.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from tidegate import registry
from tidegate.backends.keyed.journal import Cause
from tidegate.backends.keyed.segment import chunk_size
from tidegate.backends.savepoint import write_keyed
from tidegate.backends.savepoint.records import Records
from tidegate.backends.spi import BackendContext, CheckpointStorage, Chunk
from tidegate.backends.storage import LocalStorage, StorageFiles, decisions_of
from tidegate.backends.timeline import (
    Change,
    Wanted,
    changes,
    key_of,
    keys_of,
    mutations,
    of_keys,
    records,
    table_of,
)
from tidegate.errors import ConfigError, StateCorruptError
from tidegate.ids import CheckpointId, OperatorUid, PipelineId
from tidegate.runtime.checkpoint.archive import Archive, Retained
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, chunks_of, decode
from tidegate.runtime.checkpoint.record import Record, read_record
from tidegate.runtime.checkpoint.scratch import Scratch

__all__ = [
    "EVERYTHING",
    "Difference",
    "Moment",
    "Position",
    "Selection",
    "Timeline",
    "export_parquet",
    "pipelines",
]


@dataclass(frozen=True, slots=True)
class Selection:
    """A query: a key, an operator by its uid, a state by its name; all of them by default."""

    key: Any = ...
    operator: str | None = None
    state: str | None = None


EVERYTHING: Final = Selection()

_Place: TypeAlias = tuple[OperatorUid, str, str, bytes, bytes, Any]
"""The identity of a record: operator, state, kind, key, namespace, and what distinguishes records of one key."""


class Moment(msgspec.Struct, frozen=True):
    """A retained checkpoint. `size` is what it refers to, `added` what no older retained one does, in bytes."""

    checkpoint: CheckpointId
    created_ms: int
    branch: int
    settled: bool
    size: int
    added: int
    operators: tuple[str, ...]
    damage: str | None = None
    """Why it cannot be read, if it cannot."""


class Difference(msgspec.Struct, frozen=True):
    """A record of an operator's state that differs; `cause` is what made it so, if that was kept."""

    operator: OperatorUid
    change: Change
    cause: Cause | None = None


class Position(msgspec.Struct, frozen=True):
    """Where reading of a split stood at two checkpoints; None: not begun, or at its end."""

    source: OperatorUid
    split: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Timeline(Scratch):
    """The retained checkpoints of a pipeline, as they are when it is opened. To be closed, or used with `with`.

    Raises:
        ConfigError: the storage has no such pipeline.
        StateFormatError: a newer version wrote it.
    """

    def __init__(self, storage: CheckpointStorage, pipeline: str) -> None:
        self._storage = storage
        self._decisions = decisions_of(storage)
        self._id = PipelineId(pipeline)
        self._archive = Archive(storage.blobs, self._decisions)
        self.record: Record = self._read()
        """The record of the pipeline in the storage."""
        self.files = StorageFiles(storage.blobs, "")
        super().__init__()

    def moments(self) -> list[Moment]:
        """All retained checkpoints, oldest first."""
        seen: set[Chunk] = set()
        return [self._moment(retained, seen) for retained in self.record.retained]

    def manifest(self, number: int | None = None) -> Manifest:
        """The metadata of a checkpoint, of the newest one without a number; raises as `held` does."""
        with self._while_retained(retained := self._retained(number)):
            return self._archive.load(retained)

    def held(self, number: int | None, where: Selection = EVERYTHING) -> Iterator[Difference]:
        """What a checkpoint holds, as a difference to nothing.

        Raises:
            ConfigError: it is not retained, or has no such operator or state.
            StateCorruptError: it is damaged.
            StateFormatError: a newer version wrote it.
        """
        manifest = self.manifest(number)
        with self._while_retained(self._retained(manifest.checkpoint)):
            self._chosen(manifest, where)
            yield from self._between(None, manifest, where)

    def differences(self, before: int, after: int, where: Selection = EVERYTHING) -> Iterator[Difference]:
        """What became different from one checkpoint to another; raises as `held` does."""
        old, new = self.manifest(before), self.manifest(after)
        with self._while_retained(self._retained(before)), self._while_retained(self._retained(after)):
            self._chosen(new, where)
            causes = self._causes(before, after, where)
            for each in self._between(old, new, where):
                yield msgspec.structs.replace(each, cause=causes.get(_place(each)))

    def positions(self, before: int, after: int) -> list[Position]:
        """What was read between two checkpoints; raises as `manifest` does."""
        old, new = _splits(self.manifest(before)), _splits(self.manifest(after))
        return [Position(*place, old.get(place), new.get(place)) for place in sorted({*old, *new})]

    def history(self, where: Selection = EVERYTHING) -> Iterator[tuple[Moment, Difference]]:
        """How what is held came to be, one retained checkpoint after the other; raises as `held` does.

        Where a checkpoint has a journal of an operator, every change of its epoch comes by itself.
        """
        self._chosen(self.manifest(), where)
        earlier: Manifest | None = None
        for moment in self.moments():
            if moment.damage is not None:
                continue
            manifest = self.manifest(moment.checkpoint)
            with self._while_retained(self._retained(moment.checkpoint)):
                yield from ((moment, each) for each in self._steps(earlier, manifest, where))
            earlier = manifest

    def operators(self, number: int | None, where: Selection = EVERYTHING) -> Sequence[OperatorState]:
        """The operators that have keyed state and are asked for; raises as `held` does."""
        return self._chosen(self.manifest(number), where)

    def expect_key(self, number: int | None, where: Selection) -> None:
        """Tell apart a key that nothing is held of from one that no operator could have.

        Raises:
            ConfigError: the keys of all operators are of other types.
        """
        types: dict[OperatorUid, str] = {}
        for operator in self.operators(number, where):
            found = records(operator.keyed, self.context())
            keys = (record.key for _, states in found for held in states.values() for record in held)
            types.update((operator.uid, type(key_of(key)).__name__) for key in islice(keys, 1))
        given = type(where.key).__name__
        if types and given not in types.values():
            known = ", ".join(f"{name} of operator {uid!r}" for uid, name in types.items())
            raise ConfigError(
                f"no operator has keys of type {given}; got {where.key!r}; expected {known}; "
                "put quotes around a text that looks like another type"
            )

    def context(self) -> BackendContext:
        """Where bases are read, in a directory of its own."""
        return BackendContext(self._new_directory(), self.files, {})

    def _between(
        self, old: Manifest | None, new: Manifest, where: Selection, besides: Sequence[OperatorState] = ()
    ) -> Iterator[Difference]:
        """What differs, except of some operators."""
        before, after = ({each.uid: each for each in _keyed(side, where)} for side in (old, new))
        known = {each.uid for each in besides}
        for uid in [uid for uid in {**after, **before} if uid not in known]:
            sides = [self._records(side.get(uid), where) for side in (before, after)]
            yield from (Difference(uid, change) for change in changes(*sides))

    def _steps(self, old: Manifest | None, new: Manifest, where: Selection) -> Iterator[Difference]:
        """Every change from one checkpoint to the next where that was kept, and what differs elsewhere."""
        told = _journaled(old, new, where)
        yield from self._mutations(old, told, where)
        yield from self._between(old, new, where, told)

    def _mutations(
        self, old: Manifest | None, chosen: Sequence[OperatorState], where: Selection
    ) -> Iterator[Difference]:
        for operator in chosen:
            before = old.operator(operator.uid) if old is not None else None
            for handle in operator.keyed:
                wanted = _wanted(operator, where)
                told = mutations(before.keyed if before else (), handle, self.context(), wanted)
                for change, cause in told:
                    if where.state in (None, change.state.name):
                        yield Difference(operator.uid, change, cause)

    def _causes(self, before: int, after: int, where: Selection) -> dict[_Place, Cause | None]:
        """What made the newest change of each record between two checkpoints, as far as that was kept."""
        causes: dict[_Place, Cause | None] = {}
        old = self.manifest(before)
        for retained in self.record.retained:
            if before < retained.checkpoint <= after:
                new = self.manifest(retained.checkpoint)
                told = self._mutations(old, _journaled(old, new, where), where)
                causes.update((_place(each), each.cause) for each in told)
                old = new
        return causes

    def _records(self, operator: OperatorState | None, where: Selection) -> Iterator[tuple[int, Records]]:
        if operator is None:
            return
        for group, found in records(operator.keyed, self.context(), _wanted(operator, where)):
            yield group, {state: held for state, held in found.items() if where.state in (None, state.name)}

    def _chosen(self, manifest: Manifest, where: Selection) -> Sequence[OperatorState]:
        """The operators that are asked for.

        Raises:
            ConfigError: the checkpoint has no such operator, or none of them such a state.
        """
        chosen = _keyed(manifest, where)
        if not chosen and where.operator is not None:
            uids = ", ".join(sorted(each.uid for each in _keyed(manifest, EVERYTHING))) or "none"
            raise ConfigError(
                f"checkpoint {manifest.checkpoint} has no keyed state of operator {where.operator!r}; known are {uids}"
            )
        if where.state is not None:
            handles = [handle for operator in chosen for handle in operator.keyed]
            names = {state.name for handle in handles for state in table_of(handle, self.files)}
            if where.state not in names:
                raise ConfigError(
                    f"checkpoint {manifest.checkpoint} has no state {where.state!r}; "
                    f"known are {', '.join(sorted(names)) or 'none'}"
                )
        return chosen

    def _moment(self, retained: Retained, seen: set[Chunk]) -> Moment:
        settled = self._archive.settled(retained)
        try:
            manifest = self._archive.load(retained)
        except StateCorruptError as error:
            return Moment(retained.checkpoint, 0, 0, settled, 0, 0, (), str(error))
        chunks = chunks_of(manifest)
        new = chunks - seen
        seen |= chunks
        return Moment(
            manifest.checkpoint,
            manifest.created_ms,
            manifest.branch,
            settled,
            sum(map(chunk_size, chunks)),
            sum(map(chunk_size, new)),
            tuple(each.uid for each in manifest.operators),
        )

    def _read(self) -> Record:
        record, _ = read_record(self._decisions, self._id)
        if record is None:
            known = sorted(pipelines(self._storage))
            near = get_close_matches(self._id, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known) or 'none'}"
            raise ConfigError(f"{self._storage.url} has no pipeline {self._id!r}; {hint}")
        return record

    def _retained(self, number: int | None) -> Retained:
        kept = self.record.retained
        found = [each for each in kept if number is None or each.checkpoint == number]
        if not kept:
            raise ConfigError(f"pipeline {self._id!r} has no checkpoint yet; wait until it has taken one")
        if not found:
            retained = ", ".join(str(each.checkpoint) for each in kept)
            raise ConfigError(
                f"checkpoint {number} of pipeline {self._id!r} is not retained; retained are {retained}"
            )
        return found[-1]

    @contextlib.contextmanager
    def _while_retained(self, retained: Retained) -> Iterator[None]:
        try:
            yield
        except StateCorruptError:
            self.record = self._read()
            self._retained(retained.checkpoint)
            raise


def export_parquet(
    timeline: Timeline, number: int | None, directory: Path, operator: str | None, *, backend: str
) -> list[Path]:
    """Write the keyed state of a checkpoint as Parquet files, in the format of savepoints; returns the files.

    That are all states and timers, of one operator or of all. `backend` opens the state meanwhile.

    Raises:
        ConfigError: the checkpoint has no such operator.
        StateCorruptError: the checkpoint is damaged.
    """
    directory = directory.absolute()
    target = StorageFiles(LocalStorage(directory.parent, mode=None).blobs, directory.name)
    opened_by = registry.load("tidegate.backends", backend)()
    for each in timeline.operators(number, Selection(operator=operator)):
        context = timeline.context()
        write_keyed(each.uid, each.keyed, each.max_parallelism, opened_by, context, target)
    return sorted(directory.rglob("*.parquet"))


def pipelines(storage: CheckpointStorage) -> dict[PipelineId, list[str]]:
    """The pipelines that have checkpoints on a storage, each with its runs; metadata that is damaged names none."""
    runs: dict[str, str] = {}
    for name in storage.blobs.list(""):
        run, _, rest = name.partition("/chk-")
        if rest.endswith("/_metadata"):
            runs[run] = name
    found: dict[PipelineId, list[str]] = {}
    for run, name in runs.items():
        with contextlib.suppress(StateCorruptError), storage.blobs.open(name) as file:
            found.setdefault(decode(file.read(), name).pipeline, []).append(run)
    return found


def _wanted(operator: OperatorState, where: Selection) -> Wanted | None:
    return None if where.key is ... else of_keys(keys_of(where.key), operator.max_parallelism)


def _place(found: Difference) -> _Place:
    change = found.change
    return found.operator, change.state.name, change.state.kind, change.key, change.namespace, change.sub


def _keyed(manifest: Manifest | None, where: Selection) -> Sequence[OperatorState]:
    operators = manifest.operators if manifest is not None else ()
    return [each for each in operators if each.keyed and where.operator in (None, each.uid)]


def _journaled(old: Manifest | None, new: Manifest, where: Selection) -> Sequence[OperatorState]:
    """The operators whose journals tell everything since another checkpoint."""
    if new.parent != (old.checkpoint if old is not None else None):
        return ()
    return [
        each
        for each in _keyed(new, where)
        if any(handle.journal for handle in each.keyed)
        and not any(handle.dropped_changes for handle in each.keyed)
    ]


def _splits(manifest: Manifest) -> dict[tuple[OperatorUid, str], dict[str, Any]]:
    found: dict[tuple[OperatorUid, str], dict[str, Any]] = {}
    for operator in manifest.operators:
        for data in operator.splits:
            split = msgspec.msgpack.decode(data)
            place = operator.uid, str(split.pop("id"))
            split.pop("v", None)
            found[place] = split
    return found
