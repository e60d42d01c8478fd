"""What PyFlink's programs say about output files: their names, when a new one begins, and which folder it is in.

A file holds what one subtask wrote for one checkpoint and is in the base path of its sink, so only the names are
a choice; what would change where records are found is refused.

Example:
    >>> OutputFileConfig.builder().with_part_prefix("orders").build()
    OutputFileConfig(part_prefix='orders', part_suffix='')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Self

from tidegate.errors import ConfigError

__all__ = ["BucketAssigner", "OutputFileConfig", "OutputFileConfigBuilder", "RollingPolicy"]


@dataclass(frozen=True)
class OutputFileConfig:
    """What the names of output files begin and end with."""

    part_prefix: str
    part_suffix: str

    @staticmethod
    def builder() -> OutputFileConfigBuilder:
        """A configuration in the making."""
        return OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """What they begin with."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """What they end with."""
        return self.part_suffix


class OutputFileConfigBuilder:
    """Names of output files in the making."""

    def __init__(self) -> None:
        self._prefix = "part"
        self._suffix = ""

    def with_part_prefix(self, prefix: str) -> Self:
        """What they begin with."""
        self._prefix = prefix
        return self

    def with_part_suffix(self, suffix: str) -> Self:
        """What they end with."""
        self._suffix = suffix
        return self

    def build(self) -> OutputFileConfig:
        """The configuration."""
        return OutputFileConfig(self._prefix, self._suffix)


@dataclass(frozen=True)
class RollingPolicy:
    """When a new file begins; accepted and without effect, because every checkpoint begins one."""

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 * 1024 * 1024,
        rollover_interval: int = 60_000,
        inactivity_interval: int = 60_000,
    ) -> RollingPolicy:
        """By size and time."""
        return RollingPolicy()

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """At every checkpoint, which is what happens."""
        return RollingPolicy()


@dataclass(frozen=True)
class BucketAssigner:
    """Which folder below the base path a record goes to."""

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """None: files are in the base path itself."""
        return BucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> NoReturn:
        """Refused.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "date_time_bucket_assigner is not available yet: files are written into the base path; "
            "use base_path_bucket_assigner()"
        )
