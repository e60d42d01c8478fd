"""Where tasks keep state on the machine they run on, and in what: below the directories that Spark gives an executor.

What a task leaves there is a version of its state for the task of the next epoch, if that runs on the same machine. The cluster
removes it with the executor, or with the program where it gives all executors of a program on a machine a directory in common.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import xxhash

from tidegate.backends.keyed.segment import chunk_size
from tidegate.backends.spi import Backend, BackendContext, KeyedHandle, SnapshotFiles
from tidegate.ids import OperatorUid, Subtask
from tidegate.registry import load
from tidegate.runtime.operators.environment import RestoredOperator
from tidegate.runtime.options import JobOptions
from tidegate.runtime.spark.messages import Order

__all__ = ["LARGE_BYTES", "Start", "remove_later", "removed", "state_of", "working_roots"]

LARGE_BYTES: Final = 4 * 1024 * 1024
"""State that is larger is not read into memory in every epoch."""

Start = Mapping[OperatorUid, RestoredOperator]

_removals = ThreadPoolExecutor(1, thread_name_prefix="tidegate-removals")
"""Has no thread before the first task: the process that workers are forked from must have none."""

_IN_MEMORY: Final = ("heap", "filesystem")
_ON_DISK: Final = "rocksdb"


def working_roots(options: JobOptions) -> tuple[str, ...]:
    """Where a task works: where the settings say, or beside what Spark itself keeps on disk."""
    return options.local_dirs or _given()


def remove_later(directory: Path) -> None:
    """Remove a directory while the next task runs: it waits for the disk, once for each file."""
    _removals.submit(shutil.rmtree, directory, ignore_errors=True)


def removed() -> None:
    """Wait until everything is removed."""
    _removals.submit(int).result()


def state_of(
    order: Order, subtask: Subtask, start: Start, directory: Path, files: SnapshotFiles
) -> tuple[Backend, BackendContext]:
    """What the state of a subtask is kept in: as the program says, or on disk if it would be read anew as a whole."""
    backend: Backend = order.backend
    options = order.options
    handles = [handle for restored in start.values() for handle in restored.keyed]
    if backend.name in _IN_MEMORY and _is_large(handles):
        backend, options = _on_disk(), replace(options, backend=_ON_DISK)
    return backend, BackendContext(
        directory, files, options.of_backend, options.managed_bytes, _versions_of(order, subtask)
    )


@cache
def _on_disk() -> Backend:
    backend: Backend = load("tidegate.backends", _ON_DISK)()
    return backend


def _is_large(handles: Iterable[KeyedHandle]) -> bool:
    """Whether it should be on disk; what is there already stays, as it would be written anew each time it changes sides."""
    on_disk = any(handle.base is not None and handle.base.backend == _ON_DISK for handle in handles)
    return on_disk or sum(chunk_size(chunk) for handle in handles for chunk in handle.chunks) > LARGE_BYTES


def _versions_of(order: Order, subtask: Subtask) -> Path | None:
    """Where versions of the state of a subtask are; None where Spark gives no directory.

    Every pipeline has its own, since one of its tasks may remove what another one has left.
    """
    given = _given()
    if not given:
        return None
    pipeline = xxhash.xxh3_64_hexdigest(f"{order.storage.url} {order.pipeline}".encode())
    return _in_common(Path(given[subtask.index % len(given)])) / f"tidegate-versions-{pipeline}"


def _in_common(own: Path) -> Path:
    """What the executors of a program on this machine have in common, above what is this one's own, or that."""
    standalone, yarn = os.environ.get("SPARK_EXECUTOR_DIRS", ""), os.environ.get("LOCAL_DIRS", "")
    given = [*standalone.split(os.pathsep), *(yarn.split(",") if "CONTAINER_ID" in os.environ else ())]
    return own.parent if str(own.parent) in given else own


def _given() -> tuple[str, ...]:
    # So Spark tells its Python workers.
    return tuple(filter(None, os.environ.get("SPARK_LOCAL_DIRS", "").split(",")))
