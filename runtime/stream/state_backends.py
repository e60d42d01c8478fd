"""State backends and checkpoint storage, under PyFlink's names: each stands for settings.

In PyFlink 2 these classes are left over from `set_state_backend(...)`, which settings have replaced; here both work.

Example:
    >>> EmbeddedRocksDBStateBackend().settings()
    {'state.backend.type': 'rocksdb'}
    >>> FileSystemCheckpointStorage("file:///data/checkpoints").settings()
    {'state.checkpoints.dir': '/data/checkpoints'}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final
from urllib.parse import urlsplit

from tidegate.runtime.unsupported_api import UnsupportedApi

__all__ = [
    "CheckpointStorage",
    "EmbeddedRocksDBStateBackend",
    "FileSystemCheckpointStorage",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "StateBackend",
]


_NOT_GIVEN: Final = -1


class StateBackend(UnsupportedApi, ABC):
    """Where working state lives."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings it stands for."""


class HashMapStateBackend(StateBackend):
    """In memory."""

    def settings(self) -> dict[str, Any]:
        """The backend `heap`."""
        return {"state.backend.type": "heap"}


class EmbeddedRocksDBStateBackend(StateBackend):
    """In a store on disk; checkpoints are incremental unless that is refused."""

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        self._incremental = enable_incremental_checkpointing

    def is_incremental_checkpoints_enabled(self) -> bool:
        """What was given; they are if nothing was."""
        return self._incremental is not False

    def settings(self) -> dict[str, Any]:
        """The backend `rocksdb`, and whether checkpoints are incremental if that was given."""
        chosen = {"state.backend.type": "rocksdb"}
        return (
            chosen
            if self._incremental is None
            else {**chosen, "state.backend.incremental": self._incremental}
        )


class CheckpointStorage(UnsupportedApi, ABC):
    """Where checkpoints are written."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings it stands for."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """Flink keeps small checkpoints in memory; here they are files, in `checkpoint_path` if that is given."""

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._path = None if checkpoint_path is None else _local(checkpoint_path)
        self._max_state_size = max_state_size

    def get_checkpoint_path(self) -> str | None:
        """What was given."""
        return self._path

    def get_max_state_size(self) -> int | None:
        """What was given: the limit of one state on the backend `heap`."""
        return self._max_state_size

    def settings(self) -> dict[str, Any]:
        """The directory and the limit, if they were given."""
        directory = {} if self._path is None else {"state.checkpoints.dir": self._path}
        limit = {} if self._max_state_size is None else {"state.backend.heap.max-state": self._max_state_size}
        return {**directory, **limit}


class FileSystemCheckpointStorage(CheckpointStorage):
    """Files in a directory or at another storage's URL; state below a threshold goes into the metadata."""

    def __init__(
        self,
        checkpoint_path: str,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = _NOT_GIVEN,
    ) -> None:
        self._path = _local(checkpoint_path)
        self._threshold = file_state_size_threshold
        self._write_buffer_size = write_buffer_size

    def get_checkpoint_path(self) -> str:
        """The directory."""
        return self._path

    def get_min_file_size_threshold(self) -> int | None:
        """What was given; None leaves it to the setting."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """What was given; -1 leaves it to the setting."""
        return self._write_buffer_size

    def settings(self) -> dict[str, Any]:
        """The directory, and the threshold and the buffer if they were given."""
        settings: dict[str, Any] = {"state.checkpoints.dir": self._path}
        if self._threshold is not None:
            settings["state.backend.fs.memory-threshold"] = self._threshold
        if self._write_buffer_size != _NOT_GIVEN:
            settings["state.backend.fs.write-buffer-size"] = self._write_buffer_size
        return settings


def _local(path: str) -> str:
    url = urlsplit(path)
    return url.path if url.scheme == "file" else path
