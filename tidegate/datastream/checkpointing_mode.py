"""Checkpointing modes, under PyFlink's module name."""

from tidegate.runtime.stream.checkpoint_config import CheckpointingMode as CheckpointingMode

__all__ = ["CheckpointingMode"]
