"""Writes savepoints: from a checkpoint or from nothing, with state added, replaced or removed."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import msgspec

from tidegate import registry
from tidegate.backends.keyed import KeyedStore, StateDescriptor
from tidegate.backends.spi import BackendContext
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.clock import new_id
from tidegate.errors import ConfigError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId
from tidegate.keys import KeyGroupRange, canonical
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState
from tidegate.runtime.checkpoint.savepoint import open_settled, write_savepoint
from tidegate.runtime.working_directory import OwnedDirectory

__all__ = ["StateWriter"]

_BATCH = 10_000


class StateWriter:
    """Changes what a checkpoint or savepoint holds and writes the result as a savepoint of its own.

    `source` is `<root>/<run>/chk-<n>` or the directory of a savepoint, and is not changed; None begins with nothing.
    What is put is held in memory until it is written; `backend` opens the state of `source` meanwhile.

    Raises:
        ConfigError: the name is not that of a checkpoint, or output that it decided is not known to be visible.
        StateCorruptError: the checkpoint does not exist or is damaged.
        StateFormatError: it is of a newer version.
    """

    def __init__(self, source: str | Path | None = None, *, backend: str = "filesystem") -> None:
        self._backend = backend
        if source is None:
            self._manifest, blobs = _nothing(), MemoryStorage().blobs
        else:
            opened = open_settled(source)
            self._manifest, blobs = opened.manifest, opened.storage.blobs
        self._files = StorageFiles(blobs, "", inline_threshold=sys.maxsize)

    def remove(self, operator: str) -> Self:
        """Forget all state of an operator.

        Raises:
            ConfigError: the snapshot has no such operator.
        """
        known = self._known()
        if known.pop(OperatorUid(operator), None) is None:
            raise ConfigError(
                f"the snapshot has no operator {operator!r}; known are {', '.join(sorted(known)) or 'none'}"
            )
        self._manifest = self._with(known)
        return self

    def put(
        self,
        operator: str,
        state: StateDescriptor,
        items: Iterable[tuple[Any, Any]],
        *,
        max_parallelism: int = 128,
    ) -> Self:
        """Store a value for each key: a value, the elements of a list, or the entries of a map, instead of what was there.

        Reducing and aggregating state takes the value in as `add` does. An operator that is new gets `max_parallelism`
        key groups. The descriptor's types must be those of the program.

        Raises:
            StateFormatError: the state is there with another type.
            RecordError: a key or value cannot be stored.
        """
        known = self._known()
        new = OperatorState(OperatorUid(operator), operator, 1, max_parallelism)
        found = known.get(OperatorUid(operator), new)
        groups = KeyGroupRange(0, found.max_parallelism)
        with OwnedDirectory("state") as scratch:
            context = BackendContext(scratch, self._files, {})
            backend = registry.load("tidegate.backends", self._backend)()
            store = KeyedStore(backend, groups, found.max_parallelism, found.keyed, context)
            try:
                _fill(store, state, items)
                handle = store.snapshot(CheckpointId(1), None).finish()
            finally:
                store.close()
        known[found.uid] = msgspec.structs.replace(found, keyed=(handle,))
        self._manifest = self._with(known)
        return self

    def write(self, directory: str | Path) -> None:
        """Write the savepoint; `-s directory` starts from it.

        Raises:
            ConfigError: the directory holds a savepoint already.
            UnavailableError: the storage did not take a file.
        """
        write_savepoint(self._manifest, self._files, directory, self._backend)

    def _known(self) -> dict[OperatorUid, OperatorState]:
        return {operator.uid: operator for operator in self._manifest.operators}

    def _with(self, operators: dict[OperatorUid, OperatorState]) -> Manifest:
        return msgspec.structs.replace(self._manifest, operators=tuple(operators.values()))


def _fill(store: KeyedStore, descriptor: StateDescriptor, items: Iterable[tuple[Any, Any]]) -> None:
    state = store.state(descriptor)
    for number, (key, value) in enumerate(items, start=1):
        store.bind(canonical(key))
        match descriptor.kind:
            case "map" | "ordered_map":
                state.clear()
                state.put_all(value)
            case "reducing" | "aggregating":
                state.add(value)
            case _:
                state.update(value)
        if number % _BATCH == 0:
            store.end_batch()


def _nothing() -> Manifest:
    return Manifest(
        PipelineId(""), LineageId(new_id(8)), Branch(0), RunId(new_id()), CheckpointId(0), None, 0, (), ()
    )
