"""Lookup of checkpoint storages by URL scheme: each scheme is an entry point of the group `tidegate.storages`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tidegate.backends.spi import CheckpointStorage, SupportsMode
from tidegate.backends.storage.local import LocalStorage
from tidegate.backends.storage.memory import MemoryStorage
from tidegate.components import options_for, with_options
from tidegate.errors import ConfigError
from tidegate.registry import load

__all__ = ["below", "complete", "in_directory", "in_memory", "open_storage"]


def open_storage(
    url: str | Path, mode: int | None = None, options: Mapping[str, Any] | None = None
) -> CheckpointStorage:
    """The storage of a local path or a URL; no I/O.

    `mode` is that of the directories it makes, if it makes some; None leaves that to the storage. `options` are settings by
    dotted key, of which it gets those that it declares.

    Example:
        >>> open_storage("/var/lib/app").url
        'file:///var/lib/app'

    Raises:
        ConfigError: nothing is registered for the scheme, or it refuses the URL.
    """
    scheme, found, _ = str(url).partition("://")
    storage: CheckpointStorage = (
        load("tidegate.storages", scheme)(str(url)) if found else LocalStorage(Path(url))
    )
    if options:
        storage = with_options(storage, partial(options_for, values=options))
    return storage.with_mode(mode) if mode is not None and isinstance(storage, SupportsMode) else storage


def below(url: str, name: str) -> str:
    """The URL or path of `name` in a storage.

    Example:
        >>> below("s3://state/orders?region=eu-west-1", "savepoint-1")
        's3://state/orders/savepoint-1?region=eu-west-1'
    """
    path, mark, options = url.partition("?") if "://" in url else (url, "", "")
    return f"{path.rstrip('/')}/{name}{mark}{options}"


def complete(url: str, options: Mapping[str, Any]) -> str:
    """A URL with the options that were set for its storage; a path is returned unchanged.

    Example:
        >>> complete("s3://state/orders", {"s3.region": "eu-west-1"})
        's3://state/orders?region=eu-west-1'

    Raises:
        ConfigError: as `open_storage` does.
    """
    return open_storage(url, options=options).url if options and "://" in url else url


def in_directory(url: str) -> LocalStorage:
    """The storage of `file:///path`."""
    path = url.removeprefix("file://")
    if not path.startswith("/"):
        raise ConfigError(f"invalid file URL; got {url!r}; expected file:///path, a path of this host")
    return LocalStorage(Path(unquote(path)))


def in_memory(url: str) -> MemoryStorage:
    """The storage of `memory://name`."""
    return MemoryStorage(url.removeprefix("memory://"))
