"""Checkpoint storages, under PyFlink's module name."""

from tidegate.runtime.stream.state_backends import (
    CheckpointStorage as CheckpointStorage,
    FileSystemCheckpointStorage as FileSystemCheckpointStorage,
    JobManagerCheckpointStorage as JobManagerCheckpointStorage,
)

__all__ = ["CheckpointStorage", "FileSystemCheckpointStorage", "JobManagerCheckpointStorage"]
