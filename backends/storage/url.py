"""Finds a checkpoint storage by its URL: each scheme is an entry point `tidegate.storages`, of ours or of others."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from tidegate.backends.spi import CheckpointStorage
from tidegate.backends.storage.local import LocalStorage
from tidegate.backends.storage.memory import MemoryStorage
from tidegate.errors import ConfigError
from tidegate.registry import load

__all__ = ["below", "in_directory", "in_memory", "open_storage"]


def open_storage(url: str | Path) -> CheckpointStorage:
    """The storage of a local path or a URL; no I/O.

    Example:
        >>> open_storage("/var/lib/app").url
        'file:///var/lib/app'

    Raises:
        ConfigError: nothing is registered for the scheme, or it refuses the URL.
    """
    scheme, found, _ = str(url).partition("://")
    if not found:
        return LocalStorage(Path(url))
    storage: CheckpointStorage = load("tidegate.storages", scheme)(str(url))
    return storage


def below(url: str, name: str) -> str:
    """The URL or path of what is called `name` in a storage.

    Example:
        >>> below("s3://state/orders?region=eu-west-1", "savepoint-1")
        's3://state/orders/savepoint-1?region=eu-west-1'
    """
    path, mark, options = url.partition("?") if "://" in url else (url, "", "")
    return f"{path.rstrip('/')}/{name}{mark}{options}"


def in_directory(url: str) -> LocalStorage:
    """The storage of `file:///path`."""
    path = url.removeprefix("file://")
    if not path.startswith("/"):
        raise ConfigError(f"a file URL names a path of this host; got {url!r}; expected file:///path")
    return LocalStorage(Path(unquote(path)))


def in_memory(url: str) -> MemoryStorage:
    """The storage of `memory://name`."""
    return MemoryStorage(url.removeprefix("memory://"))
