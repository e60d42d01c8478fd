"""Checkpoint configuration, under PyFlink's module name."""

from tidegate.runtime.stream.checkpoint_config import CheckpointConfig as CheckpointConfig

__all__ = ["CheckpointConfig"]
