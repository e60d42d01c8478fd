"""Checkpoint configuration, under the names of PyFlink's `CheckpointConfig`.

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

import warnings
from enum import Enum
from typing import Any, Final

from tidegate.errors import ConfigError
from tidegate.options import Layer, load
from tidegate.runtime.flink_conf import translated
from tidegate.runtime.options import INTERVAL_MS, JobOptions
from tidegate.runtime.stream.datastream import instance_of
from tidegate.runtime.stream.legacy import deprecated
from tidegate.runtime.stream.state_backends import CheckpointStorage, FileSystemCheckpointStorage
from tidegate.runtime.stream.step import positive
from tidegate.runtime.stream.time import Duration
from tidegate.runtime.unsupported_api import UnsupportedApi

__all__ = ["CheckpointConfig", "CheckpointingMode", "ExternalizedCheckpointRetention"]


_UNALIGNED: Final = "execution.checkpointing.unaligned.enabled"
_TOLERATED: Final = "execution.checkpointing.tolerable-failed-checkpoints"
_ANY_NUMBER: Final = 2**31 - 1


class CheckpointingMode(Enum):
    """What holds for records between a failure and the checkpoint before it."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointRetention(Enum):
    """Whether checkpoints are kept or deleted when a job is cancelled."""

    RETAIN_ON_CANCELLATION = 0
    DELETE_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


class CheckpointConfig(UnsupportedApi):
    """A view of the environment it came from: what is set here is set there."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._force_unaligned = False

    def is_checkpointing_enabled(self) -> bool:
        """Unless the setting execution.checkpointing.mode is NONE: checkpoints are also how output becomes visible."""
        return self._options().checkpointing != "NONE"

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Whether a failure repeats records; exactly once unless it is set."""
        at_least = self._options().checkpointing == "AT_LEAST_ONCE"
        return CheckpointingMode.AT_LEAST_ONCE if at_least else CheckpointingMode.EXACTLY_ONCE

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """AT_LEAST_ONCE waits for no barrier, so a failure may repeat records."""
        mode = instance_of("checkpointing mode", checkpointing_mode, CheckpointingMode)
        self._settings["execution.checkpointing.mode"] = mode.name
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
        """Milliseconds between the end of a checkpoint and the next one."""
        return self._options().pause_ms

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Start no checkpoint before so many milliseconds have passed since the one before ended."""
        self._settings["execution.checkpointing.min-pause"] = min_pause_between_checkpoints
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        """What was set, 1 unless it was; however many may be under way, there is one at a time."""
        return self._options().max_concurrent

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """At most so many, which one at a time never exceeds."""
        most = positive("max concurrent checkpoints", max_concurrent_checkpoints)
        self._settings["execution.checkpointing.max-concurrent-checkpoints"] = most
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
        """Whether they are kept or deleted when the job is cancelled; default: kept."""
        return ExternalizedCheckpointRetention[self._options().retention]

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set whether checkpoints are kept or deleted when the job is cancelled; a failed job always keeps them.

        Raises:
            ConfigError: there shall be none that stay, though every checkpoint is on storage.
        """
        retention = instance_of(
            "set_externalized_checkpoint_retention", retention_mode, ExternalizedCheckpointRetention
        )
        if retention is ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS:
            raise ConfigError(
                "checkpoints cannot be kept as NO_EXTERNALIZED_CHECKPOINTS, because all of them are on storage; "
                "use RETAIN_ON_CANCELLATION or DELETE_ON_CANCELLATION"
            )
        self._settings["execution.checkpointing.externalized-checkpoint-retention"] = retention.name
        return self

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether checkpoints overtake records on their way."""
        return self._options().unaligned

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let checkpoints overtake records on their way and keep them, so that a slow step does not hold them up."""
        self._settings[_UNALIGNED] = enabled
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Let checkpoints wait for the records in front of their barriers."""
        return self.enable_unaligned_checkpoints(False)

    def is_force_unaligned_checkpoints(self) -> bool:
        """What was set; it changes nothing."""
        return self._force_unaligned

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Changes nothing, and warns: it is for iterations, which are refused with unaligned checkpoints."""
        if force_unaligned_checkpoints:
            warnings.warn(
                "set_force_unaligned_checkpoints has no effect: it is for programs with iterations, and such a program "
                "is refused with unaligned checkpoints, because feedback edges carry no barriers",
                stacklevel=2,
            )
        self._force_unaligned = force_unaligned_checkpoints
        return self

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """How long an unaligned checkpoint waits for the records in front of its barriers before it overtakes them."""
        return Duration.of_millis(self._options().aligned_ms)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Overtake records only where waiting for them takes longer; without unaligned checkpoints it changes nothing."""
        timeout = instance_of("set_aligned_checkpoint_timeout", alignment_timeout, Duration)
        self._settings["execution.checkpointing.aligned-checkpoint-timeout"] = timeout.to_milliseconds()
        return self

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

    def _options(self) -> JobOptions:
        return load(JobOptions, translated(Layer("program", self._settings)))
