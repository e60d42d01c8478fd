"""How checkpoints are taken, under the names of PyFlink's `CheckpointConfig`.

What is chosen here becomes a setting of the program. What changes nothing is accepted, what would promise something
that is not there is refused.

Example:
    >>> from tidegate.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> config = env.enable_checkpointing(5_000).get_checkpoint_config()
    >>> config.get_checkpoint_interval(), config.get_checkpointing_mode().name
    (5000, 'EXACTLY_ONCE')
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from tidegate.errors import ConfigError
from tidegate.options import Layer, load
from tidegate.runtime.options import INTERVAL_MS, JobOptions
from tidegate.runtime.refusing import Refusing
from tidegate.runtime.stream.datastream import instance_of, positive
from tidegate.runtime.stream.legacy import deprecated
from tidegate.runtime.stream.state_backends import CheckpointStorage, FileSystemCheckpointStorage
from tidegate.runtime.stream.time import Duration

__all__ = ["CheckpointConfig", "CheckpointingMode", "ExternalizedCheckpointRetention", "refuse_other_modes"]


_TOLERATED: Final = "execution.checkpointing.tolerable-failed-checkpoints"
_ANY_NUMBER: Final = 2**31 - 1


class CheckpointingMode(Enum):
    """What holds for records between a failure and the checkpoint before it."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointRetention(Enum):
    """What becomes of checkpoints when a job is cancelled."""

    RETAIN_ON_CANCELLATION = 0
    DELETE_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


class CheckpointConfig(Refusing):
    """A view of the environment it came from: what is set here is set there."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    def is_checkpointing_enabled(self) -> bool:
        """Always: checkpoints are also how output becomes visible."""
        return True

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once."""
        return CheckpointingMode.EXACTLY_ONCE

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Only EXACTLY_ONCE.

        Raises:
            ConfigError: another mode is asked for.
        """
        refuse_other_modes(checkpointing_mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between two checkpoints."""
        return self._options().interval_ms or INTERVAL_MS

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Take a checkpoint every so many milliseconds."""
        interval = positive("checkpoint interval", checkpoint_interval)
        self._settings["execution.checkpointing.interval"] = interval
        return self

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds after which a checkpoint is given up."""
        return self._options().timeout_ms

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Give a checkpoint up after so many milliseconds."""
        self._settings["execution.checkpointing.timeout"] = positive("checkpoint timeout", checkpoint_timeout)
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """None is kept: a checkpoint is due an interval after the one before began."""
        return 0

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Accepted and ignored: checkpoints never overlap, and the interval decides when one is due."""
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        """One at a time."""
        return 1

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Accepted and ignored: it is one at a time."""
        positive("max concurrent checkpoints", max_concurrent_checkpoints)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first checkpoint that comes to nothing fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Fail at the first checkpoint that comes to nothing, or at none."""
        if fail_on_checkpointing_errors:
            return self.set_tolerable_checkpoint_failure_number(0)
        self._settings.pop(_TOLERATED, None)
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """As many checkpoints in a row may come to nothing; unless it is set, any number, but two at the end."""
        tolerated = self._options().tolerated_failures
        return _ANY_NUMBER if tolerated is None else tolerated

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Fail the job when more checkpoints in a row come to nothing."""
        self._settings[_TOLERATED] = tolerable_checkpoint_failure_number
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        """They are: every checkpoint is on storage."""
        return True

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """They stay after a cancellation."""
        return ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Only RETAIN_ON_CANCELLATION.

        Raises:
            ConfigError: another one is asked for.
        """
        retention = instance_of(
            "set_externalized_checkpoint_retention", retention_mode, ExternalizedCheckpointRetention
        )
        if retention is not ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION:
            raise ConfigError(
                f"checkpoints cannot be kept as {retention.name}; expected RETAIN_ON_CANCELLATION, which is how "
                "they are kept; delete the directory of the pipeline when it is not needed any more"
            )
        return self

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """No: checkpoints are aligned."""
        return False

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Only with False.

        Raises:
            ConfigError: they are asked for.
        """
        return self._must_stay(
            "enable_unaligned_checkpoints", enabled, "unaligned checkpoints are not available yet"
        )

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """They are not available yet."""
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """No: checkpoints are aligned."""
        return False

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Only with False.

        Raises:
            ConfigError: they are asked for.
        """
        return self._must_stay(
            "set_force_unaligned_checkpoints",
            force_unaligned_checkpoints,
            "unaligned checkpoints are not available yet",
        )

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """None: a checkpoint stays aligned."""
        return Duration.of_millis(0)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Only none at all.

        Raises:
            ConfigError: it is longer.
        """
        timeout = instance_of("set_aligned_checkpoint_timeout", alignment_timeout, Duration)
        return self._must_stay(
            "set_aligned_checkpoint_timeout",
            bool(timeout.to_milliseconds()),
            "unaligned checkpoints are not available yet",
        )

    get_alignment_timeout = get_aligned_checkpoint_timeout
    set_alignment_timeout = set_aligned_checkpoint_timeout

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Deprecated: where checkpoints are written."""
        deprecated("set_checkpoint_storage(...)", "the setting state.checkpoints.dir")
        self._settings.update(instance_of("set_checkpoint_storage", storage, CheckpointStorage).settings())
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Deprecated: the directory where checkpoints are written."""
        deprecated("set_checkpoint_storage_dir(...)", "the setting state.checkpoints.dir")
        self._settings.update(FileSystemCheckpointStorage(checkpoint_path).settings())
        return self

    def _must_stay(self, what: str, asked: bool, because: str) -> CheckpointConfig:
        if asked:
            raise ConfigError(f"{what} is refused, because {because}; leave it out")
        return self

    def _options(self) -> JobOptions:
        return load(JobOptions, Layer("program", self._settings))


def refuse_other_modes(mode: CheckpointingMode) -> None:
    """Refuse a mode that is not there.

    Raises:
        ConfigError: it is not EXACTLY_ONCE.
    """
    if instance_of("checkpointing mode", mode, CheckpointingMode) is not CheckpointingMode.EXACTLY_ONCE:
        raise ConfigError(f"checkpointing mode {mode.name} is not available yet; use EXACTLY_ONCE")
