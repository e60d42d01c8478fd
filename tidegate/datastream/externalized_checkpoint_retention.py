"""Retention of externalized checkpoints, under PyFlink's module name."""

from tidegate.runtime.stream.checkpoint_config import (
    ExternalizedCheckpointRetention as ExternalizedCheckpointRetention,
)

__all__ = ["ExternalizedCheckpointRetention"]
