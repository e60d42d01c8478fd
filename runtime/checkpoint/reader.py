"""Looks into the keyed state of a checkpoint without the program that wrote it.

All states of an operator that is asked for are written in canonical form below a local directory first, from there they
are read as tables. Nothing on the checkpoint's storage is changed, and a job that runs may go on; the checkpoint must
be retained until its operators were read.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from tidegate import registry
from tidegate.backends.keyed.segment import read_segment
from tidegate.backends.savepoint import folder, read_table, write_keyed
from tidegate.backends.spi import Backend, BackendContext, SnapshotFiles
from tidegate.backends.storage import LocalStorage, StorageFiles
from tidegate.errors import ConfigError
from tidegate.runtime.checkpoint.manifest import OperatorState
from tidegate.runtime.checkpoint.savepoint import open_snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

__all__ = ["StateReader"]


class StateReader:
    """The keyed state of a checkpoint `<root>/<run>/chk-<n>` or of a savepoint as tables; a path or a URL names it.

    `backend` opens the state meanwhile: `rocksdb` where it is larger than memory. To be closed, or used with `with`.

    Example:
        >>> StateReader("chk-7")
        Traceback (most recent call last):
        tidegate.errors.ConfigError: 'chk-7' is no checkpoint and no savepoint; expected ...

    Raises:
        ConfigError: the name is that of no checkpoint and no savepoint.
        StateCorruptError: there is no such checkpoint, or it is damaged.
        StateFormatError: it is of a newer version.
    """

    def __init__(self, checkpoint: str | Path, *, backend: str = "filesystem") -> None:
        opened = open_snapshot(checkpoint)
        self._manifest = opened.manifest
        self._files: SnapshotFiles = StorageFiles(opened.storage.blobs, "")
        self._backend: Backend = registry.load("tidegate.backends", backend)()
        self._scratch = TemporaryDirectory(prefix="tidegate-state-")
        self._written: dict[str, Path] = {}

    def operators(self) -> dict[str, tuple[str, ...]]:
        """The names of the states of every operator that keeps state by key, by the operator's uid."""
        return {
            operator.uid: tuple(sorted(self._states(operator)))
            for operator in self._manifest.operators
            if operator.keyed
        }

    def table(
        self,
        operator: str,
        state: str,
        *,
        key: Any = None,
        namespace: bytes | None = None,
        filter: pc.Expression | None = None,  # as pyarrow names it
    ) -> pa.Table:
        """The records of a state: of all keys or of one, of all namespaces or of one (`b""`: none).

        Columns are `key_group`, `key`, `namespace`, `position` in a list or `map_key` in a map, and `value`. Parts of
        the local files that neither `key` nor `filter` can match are not read.

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
        return self._read(found, "state", state, key, namespace, filter)

    def timers(
        self, operator: str, service: Literal["event", "processing"] = "event", *, key: Any = None
    ) -> pa.Table:
        """The timers of an operator, of all keys or of one; columns are `key_group`, `key`, `namespace`, `time`.

        Raises:
            ConfigError: the checkpoint has no such operator.
        """
        return self._read(self._operator(operator), "timers", service, key, None, None)

    def close(self) -> None:
        """Remove what was written locally. Idempotent."""
        self._scratch.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

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
    ) -> pa.Table:
        if operator.uid not in self._written:
            self._written[operator.uid] = self._write(operator)
        files = self._written[operator.uid] / folder(operator.uid, what, name)
        return read_table(files, operator.max_parallelism, key=key, namespace=namespace, chosen=chosen)

    def _write(self, operator: OperatorState) -> Path:
        root = Path(mkdtemp(dir=self._scratch.name))
        (root / "open").mkdir()
        target = StorageFiles(LocalStorage(root).blobs, "canonical")
        context = BackendContext(root / "open", self._files, {})
        write_keyed(operator.uid, operator.keyed, operator.max_parallelism, self._backend, context, target)
        return root / "canonical"
