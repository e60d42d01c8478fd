"""Working directory of the demo; it is emptied only if the demo created it."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import ConfigError

__all__ = ["Workspace", "claim"]

_MARKER = ".tidegate-demo"


@dataclass(frozen=True, slots=True)
class Workspace:
    """What lies where."""

    root: Path

    @property
    def output(self) -> Path:
        """The files of the pipeline."""
        return self.root / "output"

    @property
    def log(self) -> Path:
        """Everything the job said."""
        return self.root / "job.log"

    @property
    def picture(self) -> Path:
        """The picture of the run."""
        return self.root / "timeline.svg"

    @property
    def report(self) -> Path:
        """The result, for programs."""
        return self.root / "report.json"


@contextmanager
def claim(root: Path) -> Iterator[Workspace]:
    """An empty directory that no other demo uses meanwhile.

    Raises:
        ConfigError: it holds something that no demo made, is no directory, is not writable, or is in use.
    """
    marker = root / _MARKER
    try:
        if root.exists() and not marker.exists() and any(root.iterdir()):
            raise ConfigError(
                f"{root} holds files that the demo did not create; expected a new or empty directory; name another with --directory"
            )
        root.mkdir(parents=True, exist_ok=True)
        with marker.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConfigError(
                    f"another demo runs in {root}; name another directory with --directory"
                ) from error
            _clear(root)
            yield Workspace(root)
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        raise ConfigError(
            f"{root} cannot be used ({error.strerror}); expected a writable directory; name one with --directory"
        ) from error


def _clear(root: Path) -> None:
    for entry in root.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _MARKER:
            entry.unlink()
