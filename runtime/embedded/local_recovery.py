"""Local recovery: copies of snapshot files on this machine, for restarts within a run.

The JobManager owns the directories and names to each task manager its own, which the one that takes its place after a
failure is told again. What no retained checkpoint needs is removed with its original, all of it with the run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from tidegate.backends.storage.copies import copy_name
from tidegate.errors import ConfigError
from tidegate.runtime.options import JobOptions
from tidegate.runtime.working_directory import WorkerDirectories

__all__ = ["LocalRecovery"]


class LocalRecovery:
    """The copies of one run; there are none unless `state.backend.local-recovery` is set."""

    def __init__(self, options: JobOptions) -> None:
        self.wanted = options.local_recovery
        """Whether there are copies."""
        self._directories = WorkerDirectories("copies", options.local_dirs)

    def directory(self, worker: int) -> Path | None:
        """Where a task manager keeps its copies; None if it keeps none."""
        if not self.wanted:
            return None
        try:
            return self._directories.of(worker)
        except ConfigError:
            return None  # a disk that is full costs only the copies

    def keep_only(self, names: Iterable[str]) -> None:
        """Remove the copies of all files but these; called while no task manager works."""
        kept = set(map(copy_name, names))
        for copy in [copy for directory in self._directories.all() for copy in directory.iterdir()]:
            if copy.name not in kept:
                copy.unlink(missing_ok=True)

    def forget(self, names: Iterable[str]) -> None:
        """Remove the copies of deleted files."""
        for directory in self._directories.all():
            for name in names:
                with contextlib.suppress(OSError):
                    (directory / copy_name(name)).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove all copies."""
        self._directories.remove()
