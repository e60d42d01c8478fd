"""Finds a checkpoint storage by its URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from tidegate.backends.spi import CheckpointStorage
from tidegate.backends.storage.local import LocalStorage
from tidegate.backends.storage.memory import MemoryStorage
from tidegate.errors import ConfigError

__all__ = ["open_storage"]


def open_storage(url: str | Path) -> CheckpointStorage:
    """The storage of a local path, a `file://` or a `memory://` URL; no I/O.

    Example:
        >>> open_storage("/var/lib/app").url
        'file:///var/lib/app'

    Raises:
        ConfigError: the scheme is unknown, or a file URL names another host.
    """
    scheme, found, rest = str(url).partition("://")
    if not found:
        return LocalStorage(Path(url))
    if scheme == "memory":
        return MemoryStorage(rest)
    if scheme != "file":
        raise ConfigError(
            f"unknown checkpoint storage scheme {scheme!r}; got {str(url)!r}; "
            "expected a path, file:///path or memory://name"
        )
    if not rest.startswith("/"):
        raise ConfigError(f"a file URL names a path of this host; got {str(url)!r}; expected file:///path")
    return LocalStorage(Path(unquote(rest)))
