"""Exports the keyed state of a checkpoint as Parquet files, in the format of savepoints."""

from __future__ import annotations

from pathlib import Path

from tidegate import registry
from tidegate.backends.savepoint import write_keyed
from tidegate.backends.storage import LocalStorage, StorageFiles
from tidegate.runtime.checkpoint.timeline import Selection, Timeline

__all__ = ["export_parquet"]


def export_parquet(
    timeline: Timeline, number: int | None, directory: Path, operator: str | None, *, backend: str
) -> list[Path]:
    """Write all states and timers, of one operator or of all; returns the files. `backend` opens the state meanwhile.

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
