"""Program resources: job parameters, cached files and the clock, available in all functions of a program."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.clock import Clock

__all__ = ["CachedFile", "ProgramResources"]


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file or directory that is copied to every worker."""

    path: str
    executable: bool = False

    def copy_to(self, place: Path) -> None:
        """Copy it to a path that does not exist; raises OSError if that fails."""
        source = Path(self.path)
        if source.is_dir():
            shutil.copytree(source, place)
        else:
            shutil.copyfile(source, place)


@dataclass(frozen=True, slots=True)
class ProgramResources:
    """Sent to the workers with the options."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, CachedFile] = field(default_factory=dict)
    clock: Clock | None = None
    """The clock of the operators; None for the machine's clock."""
