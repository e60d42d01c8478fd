"""Filesystem state backend, the default: state in memory, bases as files of the checkpoint storage."""

from __future__ import annotations

from tidegate.backends.filesystem.backend import FilesystemBackend as FilesystemBackend

__all__ = ["FilesystemBackend"]
