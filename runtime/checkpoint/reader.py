"""Reader for the state of a checkpoint, without the program that wrote it.

Of a canonical savepoint the files of the state and the key groups that are asked for are fetched. What another snapshot
holds of the operator in these key groups is first written in canonical form below a local directory. Nothing on the
snapshot's storage is changed, and the job may keep running; a checkpoint must be retained until it was read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tidegate import registry
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.savepoint import file_of, folder, items_table, key_groups_of, read_table, write_keyed
from tidegate.backends.spi import Backend, BackendContext, Chunk, KeyedHandle, SnapshotFiles
from tidegate.backends.storage import LocalStorage, StorageFiles
from tidegate.errors import ConfigError
from tidegate.keys import KeyGroupRange
from tidegate.runtime.checkpoint.manifest import OperatorState
from tidegate.runtime.checkpoint.savepoint import open_snapshot
from tidegate.runtime.checkpoint.scratch import Scratch
from tidegate.runtime.operators.operator_list import read

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

__all__ = ["StateReader"]


class StateReader(Scratch):
    """The state of a checkpoint `<root>/<run>/chk-<n>` or of a savepoint as tables; a path or a URL names it.

    `backend` opens the state meanwhile: `rocksdb` where it is larger than memory. To be closed, or used with `with`.

    Example:
        >>> StateReader("chk-7")
        Traceback (most recent call last):
        tidegate.errors.ConfigError: 'chk-7' is not a checkpoint or savepoint; expected ...

    Raises:
        ConfigError: the name is that of no checkpoint and no savepoint.
        StateCorruptError: the checkpoint does not exist or is damaged.
        StateFormatError: it is of a newer version.
    """

    def __init__(self, checkpoint: str | Path, *, backend: str = "filesystem") -> None:
        opened = open_snapshot(checkpoint)
        self._manifest = opened.manifest
        self._files: SnapshotFiles = StorageFiles(opened.storage.blobs, "")
        self._backend: Backend = registry.load("tidegate.backends", backend)()
        super().__init__()
        self._written: dict[tuple[str, tuple[KeyedHandle, ...]], Path] = {}
        self._local: dict[Chunk, Path] = {}

    def operators(self) -> dict[str, tuple[str, ...]]:
        """The names of the states of every operator that keeps state by key, by the operator's uid."""
        return {
            operator.uid: tuple(sorted(self._states(operator)))
            for operator in self._manifest.operators
            if operator.keyed
        }

    def key_groups(self, operator: str) -> list[KeyGroupRange]:
        """The ranges of key groups that the subtasks of an operator had.

        Raises:
            ConfigError: the checkpoint has no such operator.
        """
        found = (handle.key_groups for handle in self._operator(operator).keyed)
        return sorted(found, key=lambda key_groups: key_groups.first)

    def table(
        self,
        operator: str,
        state: str,
        *,
        key: Any = None,
        namespace: bytes | None = None,
        filter: pc.Expression | None = None,  # as pyarrow names it
        key_groups: KeyGroupRange | None = None,
    ) -> pa.Table:
        """The records of a state: of all keys or of one, of all namespaces or of one (`b""`: none), of one range.

        Columns are `key_group`, `key`, `namespace`, `position` in a list or `map_key` in a map, and `value`. Files that
        cannot hold `key`, and parts of files that neither `key` nor `filter` can match, are not read.

        Raises:
            ConfigError: the checkpoint has no such operator or state.
        """
        found = self._operator(operator)
        known = self._states(found)
        if state not in known:
            raise ConfigError(
                f"operator {operator!r} has no state {state!r} in checkpoint {self._manifest.checkpoint}; "
                f"known are {', '.join(sorted(known)) or 'none'}"
            )
        return self._read(found, "state", state, key, namespace, filter, key_groups)

    def timers(
        self,
        operator: str,
        service: Literal["event", "processing"] = "event",
        *,
        key: Any = None,
        key_groups: KeyGroupRange | None = None,
    ) -> pa.Table:
        """The timers of an operator, of all keys or of one; columns are `key_group`, `key`, `namespace`, `time`.

        Raises:
            ConfigError: the checkpoint has no such operator.
        """
        return self._read(self._operator(operator), "timers", service, key, None, None, key_groups)

    def unkeyed(self) -> dict[str, tuple[str, ...]]:
        """The names of the states without keys, lists and broadcast maps, of every operator that has some."""
        named = {each.uid: tuple(sorted(_declared(each))) for each in self._manifest.operators}
        return {uid: names for uid, names in named.items() if names}

    def unkeyed_table(self, operator: str, state: str) -> pa.Table:
        """The items of a state without keys, as each subtask holds them.

        Columns are `subtask`, then `position` of a list or `map_key` of a broadcast map, and `value`. Subtasks hold
        their shares of a list; broadcast maps are the same in each.

        Raises:
            ConfigError: the checkpoint has no such operator or state.
            StateCorruptError: a file is gone or damaged.
        """
        known = self.unkeyed()
        if state not in known.get(operator, ()):
            names = (f"{uid} ({', '.join(states)})" for uid, states in sorted(known.items()))
            raise ConfigError(
                f"checkpoint {self._manifest.checkpoint} has no state {state!r} without keys of operator {operator!r}; "
                f"known are {', '.join(names) or 'none'}"
            )
        (found,) = (each for each in self._manifest.operators if each.uid == operator)
        held = {
            subtask: each
            for subtask, lists in enumerate(found.lists)
            for each in lists
            if each.declared == state
        }
        mapped = any(each.dealt == "broadcast" for each in held.values())
        return items_table({at: read(each, self._files).items for at, each in held.items()}, mapped=mapped)

    def _operator(self, uid: str) -> OperatorState:
        keyed = {operator.uid: operator for operator in self._manifest.operators if operator.keyed}
        found = next((operator for operator in keyed.values() if operator.uid == uid), None)
        if found is None:
            raise ConfigError(
                f"checkpoint {self._manifest.checkpoint} has no keyed state of operator {uid!r}; "
                f"known are {', '.join(sorted(keyed)) or 'none'}"
            )
        return found

    def _states(self, operator: OperatorState) -> set[str]:
        newest = [handle.segments[-1] for handle in operator.keyed if handle.segments]
        return {entry.name for chunk in newest for entry in read_segment(self._files, chunk).table}

    def _read(
        self,
        operator: OperatorState,
        what: Literal["state", "timers"],
        name: str,
        key: Any,
        namespace: bytes | None,
        chosen: pc.Expression | None,
        key_groups: KeyGroupRange | None,
    ) -> pa.Table:
        where = folder(operator.uid, what, name)
        handles = tuple(each for each in operator.keyed if key_groups in (None, each.key_groups))
        if key is not None:
            groups = key_groups_of(key, operator.max_parallelism)
            handles = tuple(each for each in handles if any(group in each.key_groups for group in groups))
        files = [file_of(handle, where) for handle in handles]
        paths = [self._fetched(chunk) for chunk in files if chunk is not None]
        if None in files:
            paths = sorted((self._converted(operator, handles) / where).glob("*.parquet"))
        return read_table(paths, operator.max_parallelism, key=key, namespace=namespace, chosen=chosen)

    def _fetched(self, chunk: Chunk) -> Path:
        """A canonical file, checked, on the local disk."""
        if chunk not in self._local:
            path = self._new_directory() / "canonical.parquet"
            path.write_bytes(self._files.fetch(chunk))
            self._local[chunk] = path
        return self._local[chunk]

    def _converted(self, operator: OperatorState, handles: tuple[KeyedHandle, ...]) -> Path:
        """Where canonical files of these handles are, or of all if those are there already."""
        whole, part = (operator.uid, operator.keyed), (operator.uid, handles)
        if whole not in self._written and part not in self._written:
            self._written[part] = self._write(operator, handles)
        return self._written[whole if whole in self._written else part]

    def _write(self, operator: OperatorState, handles: tuple[KeyedHandle, ...]) -> Path:
        root = self._new_directory()
        (root / "open").mkdir()
        target = StorageFiles(LocalStorage(root).blobs, "canonical")
        context = BackendContext(root / "open", self._files, {})
        write_keyed(operator.uid, handles, operator.max_parallelism, self._backend, context, target)
        return root / "canonical"


def _declared(operator: OperatorState) -> set[str]:
    return {held.declared for lists in operator.lists for held in lists if held.declared is not None}
