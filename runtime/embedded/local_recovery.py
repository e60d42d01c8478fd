"""Copies of snapshot files that the task managers of a run keep on this machine, for restarts within the run.

Each task manager has a directory of its own, which the one that takes its place after a failure finds again. What no
retained checkpoint needs is removed with its original, all of it with the run.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tidegate.backends.spi import SnapshotFiles
from tidegate.backends.storage.copies import CopiedFiles, copy_name
from tidegate.ids import RunId
from tidegate.runtime.options import JobOptions

__all__ = ["LocalRecovery"]


class LocalRecovery:
    """The copies of one run; there are none unless `state.backend.local-recovery` is set."""

    def __init__(self, options: JobOptions, run: RunId) -> None:
        self._wanted = options.local_recovery
        self._roots = options.local_dirs or (tempfile.gettempdir(),)
        self._run = run

    def copied(self, files: SnapshotFiles, worker: int) -> SnapshotFiles:
        """The files as a task manager sees them."""
        if not self._wanted:
            return files
        root = Path(self._roots[worker % len(self._roots)])
        return CopiedFiles(files, root / f"{self._prefix}{worker}")

    def keep_only(self, names: Iterable[str]) -> None:
        """Remove the copies of all files but these; called while no task manager works."""
        kept = set(map(copy_name, names))
        for copy in [copy for directory in self._directories() for copy in directory.iterdir()]:
            if copy.name not in kept:
                copy.unlink(missing_ok=True)

    def forget(self, names: Iterable[str]) -> None:
        """Remove the copies of files that are gone."""
        for directory in self._directories():
            for name in names:
                with contextlib.suppress(OSError):
                    (directory / copy_name(name)).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove all copies."""
        for directory in self._directories():
            shutil.rmtree(directory, ignore_errors=True)

    @property
    def wanted(self) -> bool:
        """Whether there are copies."""
        return self._wanted

    @property
    def _prefix(self) -> str:
        return f"tidegate-copies-{self._run}-"

    def _directories(self) -> Iterator[Path]:
        # Looking for them in a crowded directory of temporary files takes as long as writing a small checkpoint.
        for root in self._roots if self._wanted else ():
            yield from Path(root).glob(f"{self._prefix}*")
