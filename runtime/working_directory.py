"""Where working state lives while a task runs: a directory of this machine that nobody else uses.

Example:
    >>> path = working_directory(("/mnt/one", "/mnt/two"), 3)
    >>> path.parent
    PosixPath('/mnt/two')
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidegate.clock import new_id
from tidegate.errors import ConfigError

__all__ = ["make_private", "short_directory", "working_directory"]

_ONLY_MINE: Final = 0o700


def working_directory(roots: Sequence[str], number: int) -> Path:
    """A new name below one of `roots`, dealt in turn by `number`; without roots, where temporary files are."""
    root = roots[number % len(roots)] if roots else tempfile.gettempdir()
    return Path(root) / f"tidegate-state-{new_id(8)}"


def make_private(directory: Path) -> None:
    """Make a directory that only its owner can enter.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=_ONLY_MINE)
    except OSError as error:
        raise ConfigError(
            f"no working state can be kept in {directory.parent}: {error.strerror}; make it writable, or name another "
            "one as taskmanager.state.local.root-dirs"
        ) from error


def short_directory() -> str | None:
    """Where sockets go: the address of one has room for about 100 characters, and a long TMPDIR leaves too few."""
    return None if len(tempfile.gettempdir()) < 60 else "/tmp"
