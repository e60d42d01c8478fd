"""Local state of tasks: its directory below Spark's local directories, and its backend.

A task leaves a version of its state there for the task of the next epoch, if that runs on the same machine. The cluster
removes it with the executor, or with the program if all executors of a program on a machine share a directory. If Spark
was killed before, a process of the next program on the machine removes it.
"""

from __future__ import annotations

import os
import tempfile
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
from tidegate.runtime.working_directory import OwnedDirectory, shared_directory, sweep, working_directory

__all__ = ["LARGE_BYTES", "Start", "own_directory", "remove_later", "removed", "spill_directory", "state_of"]

LARGE_BYTES: Final = 4 * 1024 * 1024
"""Larger state is kept on disk, since it is too large to be read into memory in every epoch."""

Start = Mapping[OperatorUid, RestoredOperator]

_removals = ThreadPoolExecutor(1, thread_name_prefix="tidegate-removals")
"""Starts no thread before the first task: the process that workers are forked from must not have threads."""

_OF_SPARK: Final = ("blockmgr-", "executor-", "spark-")
_PLACES: Final = ("blockmgr-*", "spark-*/executor-*", "spark-*/executor-*/blockmgr-*")
"""Directories that Spark removes with an executor or a program, unless its own process is killed."""

_IN_MEMORY: Final = ("heap", "filesystem")
_ON_DISK: Final = "rocksdb"


def own_directory(options: JobOptions, partition: int) -> OwnedDirectory:
    """The working directory of tasks: from the settings, or next to Spark's own local files.

    Raises:
        ConfigError: it cannot be made.
    """
    roots = _roots(options)
    _sweep_once(roots)
    return working_directory("state", roots[partition % len(roots)])


def spill_directory(options: JobOptions, partition: int) -> Path:
    """The directory for temporary files without names, on the disk of the task's directory."""
    roots = _roots(options)
    directory = Path(roots[partition % len(roots)])
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def remove_later(directory: OwnedDirectory) -> None:
    """Remove a directory while the next task runs, because deleting files is slow."""
    _removals.submit(lambda: directory.remove())  # the closure also keeps it alive until then


def removed() -> None:
    """Wait until everything is removed."""
    _removals.submit(int).result()


def state_of(
    order: Order, subtask: Subtask, start: Start, directory: Path, files: SnapshotFiles
) -> tuple[Backend, BackendContext]:
    """The backend of a subtask's state: that of the program, or one on disk if the whole state would be read in each epoch."""
    backend: Backend = order.backend
    options = order.options
    handles = [handle for restored in start.values() for handle in restored.keyed]
    if backend.name in _IN_MEMORY and _is_large(handles):
        backend, options = _on_disk(), replace(options, backend=_ON_DISK)
    memory = options.managed_bytes
    if memory is not None and order.batch:
        memory //= 2  # the other half is for sorting its input
    return backend, BackendContext(directory, files, options.of_backend, memory, _versions_of(order, subtask))


@cache
def _on_disk() -> Backend:
    backend: Backend = load("tidegate.backends", _ON_DISK)()
    return backend


def _is_large(handles: Iterable[KeyedHandle]) -> bool:
    """Whether state should be on disk; state that is on disk stays there, since a change would rewrite it."""
    on_disk = any(handle.base is not None and handle.base.backend == _ON_DISK for handle in handles)
    return on_disk or sum(chunk_size(chunk) for handle in handles for chunk in handle.chunks) > LARGE_BYTES


def _versions_of(order: Order, subtask: Subtask) -> Path | None:
    """The directory of local versions of a subtask's state; None if Spark provides no directory, or it is not private.

    Every pipeline has its own, since a task may remove leftovers of other tasks in it.
    """
    given = _resources()
    if not given:
        return None
    pipeline = xxhash.xxh3_64_hexdigest(f"{order.storage.url} {order.pipeline}".encode())
    return shared_directory(_in_common(Path(given[subtask.index % len(given)])), "versions", pipeline)


@cache
def _sweep_once(roots: tuple[str, ...]) -> None:
    """Remove leftovers of dead processes: in these directories, and in those of other Spark programs."""
    sweep(roots)
    for given in map(Path, _resources()):
        top = next(each for each in given.parents if not each.name.startswith(_OF_SPARK))
        sweep(place for pattern in _PLACES for place in top.glob(pattern))


def _in_common(own: Path) -> Path:
    """The directory that executors of a program on this machine share, or else this executor's own."""
    standalone, yarn = os.environ.get("SPARK_EXECUTOR_DIRS", ""), os.environ.get("LOCAL_DIRS", "")
    given = [*standalone.split(os.pathsep), *(yarn.split(",") if "CONTAINER_ID" in os.environ else ())]
    return own.parent if str(own.parent) in given else own


def _roots(options: JobOptions) -> tuple[str, ...]:
    return options.local_dirs or _resources() or (tempfile.gettempdir(),)


def _resources() -> tuple[str, ...]:
    # Spark passes its local directories to Python workers in this variable.
    return tuple(filter(None, os.environ.get("SPARK_LOCAL_DIRS", "").split(",")))
