"""Watermark strategies: timestamps of records, and how far the watermark is behind them.

A watermark t says that no record with a timestamp of t or less is expected any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from tidegate.clock import Clock
from tidegate.elements import MIN_WATERMARK
from tidegate.errors import ConfigError, RecordError
from tidegate.runtime.stream.checkpointed import stateless
from tidegate.runtime.stream.time import Duration

__all__ = [
    "Aligned",
    "Assign",
    "TimestampAssigner",
    "WatermarkGenerator",
    "WatermarkStrategy",
    "ingestion_time",
]


class TimestampAssigner(ABC):
    """Reads the event time of a record."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Milliseconds since the epoch; `record_timestamp` is the one it has so far, or the lowest there is."""


class WatermarkGenerator(ABC):
    """Creates watermarks from timestamps; one per subtask, called by its thread.

    One that is a `TimestampAssigner`, too, reads the timestamps itself. On Spark a subtask lives for one epoch:
    attributes that have changed since `open` are passed to the next epoch, with pickle if needed; a changed attribute that
    cannot be pickled fails the job.
    """

    asked: ClassVar[Literal["batch", "record", "clock"]] = "batch"
    """When to emit: after each batch of records; after each record, so that the watermark directly follows the record
    that advanced it; or after each batch and five times a second."""

    def open(self, clock: Clock) -> None:  # noqa: B027
        """Called once, before the first record."""

    def on_event(self, value: Any, timestamp: int) -> None:  # noqa: B027
        """A record came by."""

    @abstractmethod
    def watermark(self) -> int | None:
        """How far time is now, None if that is not known yet; what does not go forward is not passed on."""

    @property
    def learner(self) -> Any:
        """Whose attributes are what it has learnt."""
        return self


Assigner = TimestampAssigner | Callable[[Any, int], int]
Assign = Callable[[Any, int | None], int]


@dataclass(frozen=True)
class Aligned:
    """How far a source may be ahead of the slowest of its group, and how often it says where it is."""

    group: str
    drift_ms: int
    update_ms: int = 1_000


@dataclass(frozen=True)
class WatermarkStrategy:
    """How records get timestamps and a stream gets watermarks.

    Example:
        >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10))
        >>> strategy = strategy.with_timestamp_assigner(lambda value, timestamp: value["at"])
        >>> generator = strategy.generator()
        >>> generator.on_event({}, 20_000)
        >>> generator.watermark()
        9999
    """

    make_generator: Callable[[], WatermarkGenerator]
    timestamp_assigner: Assigner | None = None
    idle_after_ms: int | None = None
    aligned: Aligned | None = None
    every_ms: int | None = None
    """Interval between calls, if it is not called for each record: 0 is never, None after each batch."""

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Timestamps only grow: the watermark is one millisecond behind the newest."""
        return WatermarkStrategy(lambda: Bounded(0))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Records come late by `max_out_of_orderness` at most."""
        delay = max_out_of_orderness.to_milliseconds()
        return WatermarkStrategy(lambda: Bounded(delay))

    @staticmethod
    def for_generator(make_generator: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Watermarks of a generator of your own, made once per subtask."""
        return WatermarkStrategy(make_generator)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Timestamps without watermarks: there is no watermark until the input ends."""
        return WatermarkStrategy(_Never)

    def with_timestamp_assigner(self, timestamp_assigner: Assigner) -> WatermarkStrategy:
        """Read timestamps from records."""
        return replace(self, timestamp_assigner=stateless("with_timestamp_assigner", timestamp_assigner))

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Mark a subtask without records for `idle_timeout` as idle, so that it does not hold back event time."""
        if idle_timeout.to_milliseconds() <= 0:
            raise ConfigError(
                f"the idle timeout is {idle_timeout.to_milliseconds()} ms; expected more than 0"
            )
        return replace(self, idle_after_ms=idle_timeout.to_milliseconds())

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration,
        update_interval: Duration | None = None,
    ) -> WatermarkStrategy:
        """Let no split be read further than the drift, and a batch, ahead of the slowest of all sources of a group."""
        drift = max_allowed_watermark_drift.to_milliseconds()
        update = Duration.of_seconds(1) if update_interval is None else update_interval
        if drift < 0 or update.to_milliseconds() <= 0:
            raise ConfigError(
                f"watermark alignment of group {watermark_group!r} has a drift of {drift} ms and an update interval of "
                f"{update.to_milliseconds()} ms; expected a drift of 0 or more and an interval of more than 0"
            )
        return replace(self, aligned=Aligned(watermark_group, drift, update.to_milliseconds()))

    def start(self, clock: Clock) -> tuple[Assign, WatermarkGenerator]:
        """What one subtask works with: how timestamps are read, and a generator of its own."""
        generator = self.generator()
        generator.open(clock)
        return self._assigner(generator), generator

    def generator(self) -> WatermarkGenerator:
        """A new generator.

        Raises:
            ConfigError: it implements an interface for state: its attributes are its state.
        """
        return stateless("a watermark strategy", self.make_generator())

    @property
    def does_nothing(self) -> bool:
        """Whether it leaves records and event time as they are."""
        return self.make_generator is _Never and self.timestamp_assigner is None

    @property
    def gives_times(self) -> bool:
        """Whether it says when a record happened, instead of following the times that records have."""
        return self.timestamp_assigner is not None or isinstance(self.generator(), TimestampAssigner)

    def _assigner(self, generator: WatermarkGenerator) -> Assign:
        given = self.timestamp_assigner
        if given is None and isinstance(generator, TimestampAssigner):
            given = generator
        if given is None:
            return _its_own
        extract = given.extract_timestamp if isinstance(given, TimestampAssigner) else given
        if not callable(extract):
            raise ConfigError(f"a timestamp assigner is a function; got {type(given).__name__}")

        def assign(value: Any, timestamp: int | None) -> int:
            assigned = extract(value, timestamp if timestamp is not None else MIN_WATERMARK)
            if type(assigned) is not int:
                raise RecordError(
                    f"the timestamp assigner returned {assigned!r} for record {value!r}; expected milliseconds as int"
                )
            return assigned

        return assign


def ingestion_time() -> WatermarkStrategy:
    """Records get the time at which they come in; event time follows the clock."""
    return WatermarkStrategy(_Clocked)


class _Clocked(WatermarkGenerator, TimestampAssigner):
    """A clock that never goes back, and a watermark right behind it."""

    asked = "clock"

    def open(self, clock: Clock) -> None:
        self._clock = clock
        self._latest = MIN_WATERMARK

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        self._latest = max(self._latest, self._clock.now_ms())
        return self._latest

    def watermark(self) -> int | None:
        return self.extract_timestamp(None, MIN_WATERMARK) - 1


class Bounded(WatermarkGenerator):
    """A delay behind the newest timestamp; the generated loop moves `newest` itself instead of calling `on_event`."""

    def __init__(self, delay_ms: int) -> None:
        self._delay_ms = delay_ms
        self.newest = MIN_WATERMARK

    def on_event(self, value: Any, timestamp: int) -> None:
        """Remember the newest timestamp."""
        self.newest = max(self.newest, timestamp)

    def watermark(self) -> int | None:
        """The delay behind it."""
        return None if self.newest == MIN_WATERMARK else self.newest - self._delay_ms - 1


class _Never(WatermarkGenerator):
    def watermark(self) -> int | None:
        return None


def _its_own(value: Any, timestamp: int | None) -> int:
    if timestamp is None:
        raise RecordError(
            f"record {value!r} has no timestamp; give the watermark strategy a timestamp assigner"
        )
    return timestamp
