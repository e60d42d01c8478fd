"""State in memory, bases as files of the checkpoint storage: the default backend."""

from __future__ import annotations

from tidegate.backends.filesystem.backend import FilesystemBackend as FilesystemBackend

__all__ = ["FilesystemBackend"]
