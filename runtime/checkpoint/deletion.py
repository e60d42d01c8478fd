"""Deletion of a savepoint, or of a pipeline with all its checkpoints.

Nothing goes that a retained checkpoint of another pipeline refers to, which can be because of `CLAIM`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from tidegate.backends.spi import CheckpointStorage
from tidegate.backends.storage import decisions_of, open_storage
from tidegate.clock import Clock, new_id
from tidegate.errors import ConfigError
from tidegate.ids import LineageId, PipelineId, RunId
from tidegate.runtime.checkpoint.archive import Archive
from tidegate.runtime.checkpoint.lease import LeaseKeeper
from tidegate.runtime.checkpoint.manifest import files_of
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.checkpoint.record import read_record
from tidegate.runtime.checkpoint.savepoint import savepoint_files
from tidegate.runtime.checkpoint.timeline import pipelines
from tidegate.runtime.restoring import within
from tidegate.twophase.fencing import LEASE_MS

__all__ = ["dispose", "forget"]


def dispose(place: str, storage: CheckpointStorage) -> int:
    """Delete a savepoint; returns how many files that were. `storage` is where pipelines could have claimed it.

    Raises:
        ConfigError: the savepoint does not exist, or a pipeline has claimed it.
        StateCorruptError: it does not say which files it has.
    """
    found = open_storage(place)
    names = savepoint_files(place)
    prefix = within(found.url, storage.url)
    for pipeline in pipelines(storage) if prefix is not None else ():
        claimed = {f"{prefix}{name}" for name in names} & _retained_files(storage, pipeline)
        if claimed:
            raise ConfigError(
                f"savepoint {place!r} belongs to pipeline {pipeline!r} now, which still refers to {min(claimed)}; "
                "the pipeline deletes it when it is no longer needed"
            )
    # What makes it a savepoint goes last, so that what is interrupted can be done again.
    found.blobs.delete([*names[1:], names[0]])
    if "://" not in place or place.startswith("file://"):
        _remove_empty(Path(unquote(place.removeprefix("file://"))))
    return len(names)


def forget(storage: CheckpointStorage, name: str, clock: Clock, say: Callable[[str], None]) -> int:
    """Delete all files of a pipeline on a storage and return their number. Its next start has no state.

    Raises:
        ConfigError: the pipeline does not exist, is running, or has decided output that may not be visible yet.
    """
    known, pipeline = pipelines(storage), PipelineId(name)
    if pipeline not in known:
        raise ConfigError(
            f"{storage.url} has no pipeline {name!r}; known are {', '.join(sorted(known)) or 'none'}"
        )
    owner = Pipeline(storage, pipeline, RunId(new_id()), clock)
    owner.acquire(lambda: LineageId(new_id(8)), fresh=True, say=say)
    with LeaseKeeper(owner, LEASE_MS / 3_000):
        kept = frozenset[str]().union(*(_retained_files(storage, each) for each in known if each != pipeline))
        names = [
            file for run in known[pipeline] for file in storage.blobs.list(f"{run}/") if file not in kept
        ]
        owner.check_owner()
        storage.blobs.delete(names)
    owner.leave("finished")
    return len(names)


def _retained_files(storage: CheckpointStorage, pipeline: PipelineId) -> frozenset[str]:
    """The files that retained checkpoints of a pipeline refer to; one that is damaged must be seen to first."""
    archive = Archive(storage.blobs, decisions_of(storage))
    record, _ = read_record(decisions_of(storage), pipeline)
    retained = record.retained if record is not None else ()
    return frozenset[str]().union(*(files_of(archive.load(known)) for known in retained))


def _remove_empty(directory: Path) -> None:
    for folder, _, _ in os.walk(directory, topdown=False):
        if not os.listdir(folder):  # noqa: PTH208  # only whether there is something
            Path(folder).rmdir()
