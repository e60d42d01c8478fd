"""Rolling policy and compaction policy of a file sink.

Example:
    >>> RollingPolicy.on_checkpoint_rolling_policy().on_checkpoint
    True
    >>> RollingPolicy.default_rolling_policy(part_size=1024).ends(1024, begun_ms=0, written_ms=0, now_ms=0)
    True
    >>> Compaction(checkpoints=3).is_due(size=0, checkpoints=2)
    False
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import ConfigError

__all__ = ["Compaction", "RollingPolicy"]


@dataclass(frozen=True)
class RollingPolicy:
    """When a file ends and its successor begins; None never.

    Sizes and times are looked at with each batch and at each checkpoint, between which nothing becomes visible anyway.

    Args:
        part_size: From how many bytes on.
        rollover_interval: How many milliseconds after its beginning.
        inactivity_interval: How many milliseconds after its last record.
        on_checkpoint: Whether with each checkpoint.

    Raises:
        ConfigError: a number makes no sense, or nothing would ever end a file.
    """

    part_size: int | None = None
    rollover_interval: int | None = None
    inactivity_interval: int | None = None
    on_checkpoint: bool = True

    def __post_init__(self) -> None:
        limits = {
            name: getattr(self, name) for name in ("part_size", "rollover_interval", "inactivity_interval")
        }
        for name, limit in limits.items():
            if limit is not None and limit < 1:
                raise ConfigError(f"rolling policy: {name} is {limit}; expected at least 1, or None")
        if not self.on_checkpoint and set(limits.values()) == {None}:
            raise ConfigError(
                "rolling policy: no file would ever end; got neither size, time nor on_checkpoint; set one of "
                "them"
            )

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 * 1024 * 1024,
        rollover_interval: int = 60_000,
        inactivity_interval: int = 60_000,
    ) -> RollingPolicy:
        """By size and time, independently of checkpoints."""
        return RollingPolicy(part_size, rollover_interval, inactivity_interval, on_checkpoint=False)

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """With each checkpoint."""
        return RollingPolicy()

    def ends(self, size: int, *, begun_ms: int, written_ms: int, now_ms: int) -> bool:
        """Whether a file ends here by its size or by time."""
        return (
            (self.part_size is not None and size >= self.part_size)
            or (self.rollover_interval is not None and now_ms - begun_ms >= self.rollover_interval)
            or (self.inactivity_interval is not None and now_ms - written_ms >= self.inactivity_interval)
        )


@dataclass(frozen=True)
class Compaction:
    """When files of one folder that ended are merged into one; until then they are invisible.

    Args:
        size: Minimum total size in bytes; None for any size.
        checkpoints: After how many checkpoints; None only by size.
        delimiter: What is put between the contents of merged files of lines.

    Raises:
        ConfigError: a number makes no sense, or nothing would ever be merged.
    """

    size: int | None = None
    checkpoints: int | None = None
    delimiter: bytes = b""

    def __post_init__(self) -> None:
        for name, limit in (("size", self.size), ("checkpoints", self.checkpoints)):
            if limit is not None and limit < 1:
                raise ConfigError(f"compaction: {name} is {limit}; expected at least 1, or None")
        if self.size is None and self.checkpoints is None:
            raise ConfigError("compaction: got neither size nor checkpoints; set one of them")

    def is_due(self, size: int, checkpoints: int) -> bool:
        """Whether files of this total size, the first of which has waited this many checkpoints, are merged now."""
        return (self.size is not None and size >= self.size) or (
            self.checkpoints is not None and checkpoints >= self.checkpoints
        )
