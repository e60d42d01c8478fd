"""Resources that a program provides to all its functions: parameters, files, the clock."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.clock import Clock

__all__ = ["CachedFile", "ProgramResources"]


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file or directory that every worker gets a copy of."""

    path: str
    executable: bool = False

    def copy_to(self, place: Path) -> None:
        """Make a copy where nothing is yet; an OSError says why there can be none."""
        source = Path(self.path)
        if source.is_dir():
            shutil.copytree(source, place)
        else:
            shutil.copyfile(source, place)


@dataclass(frozen=True, slots=True)
class ProgramResources:
    """Travels with the options to wherever functions run."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, CachedFile] = field(default_factory=dict)
    clock: Clock | None = None
    """The clock of the operators; None for the machine's clock."""
