"""Time to live of state: PyFlink's `StateTtlConfig`, attached with `descriptor.enable_time_to_live(config)`.

Time is processing time. The moment of the last write (or read) is stored with every value, list element and map
entry; how long they live is not stored, so it may differ after each restart.

Example:
    >>> from tidegate.common import Time
    >>> config = StateTtlConfig.new_builder(Time.seconds(1)).update_ttl_on_read_and_write().build()
    >>> config.get_update_type().name, config.get_state_visibility().name
    ('OnReadAndWrite', 'NeverReturnExpired')
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

from tidegate.errors import ConfigError

__all__ = ["NS_PER_MS", "Length", "Lifetime", "StateTtlConfig", "whole_ms"]

NS_PER_MS: Final = 1_000_000

INCREMENTAL_ENTRIES: Final = 5
"""Entries looked at with each access, if nothing else is said."""

BARRIER_ENTRIES: Final = 1_000
"""Entries looked at before each checkpoint, if nothing else is said."""


class Length(Protocol):
    """A length of time: `Time`, `Duration`."""

    def to_milliseconds(self) -> int:
        """Its milliseconds."""
        ...


class TtlUpdateType(enum.Enum):
    """What prolongs a life."""

    Disabled = 0
    OnCreateAndWrite = 1
    OnReadAndWrite = 2


class TtlVisibility(enum.Enum):
    """Whether an expired value may be returned once more, by the read that removes it."""

    ReturnExpiredIfNotCleanedUp = 0
    NeverReturnExpired = 1


class TtlTime(enum.Enum):
    """Which time counts."""

    ProcessingTime = 0


@dataclass(frozen=True, slots=True)
class IncrementalCleanup:
    """Look at `size` entries with each access of the state, and with each record as well if `every_record`."""

    size: int = INCREMENTAL_ENTRIES
    every_record: bool = False

    def get_cleanup_size(self) -> int:
        """Entries per step."""
        return self.size

    def run_cleanup_for_every_record(self) -> bool:
        """Whether a record is a step too."""
        return self.every_record


@dataclass(frozen=True, slots=True)
class CompactionCleanup:
    """Look at `entries` entries before each checkpoint, and at all before a new base if that was asked for."""

    entries: int = BARRIER_ENTRIES

    def get_query_time_after_num_entries(self) -> int:
        """Entries per checkpoint."""
        return self.entries


@dataclass(frozen=True, slots=True)
class TtlCleanup:
    """How expired entries that are not read are removed.

    In the background, unless that is disabled: by the configured strategies, or by both if none is configured.
    """

    background: bool = True
    full_snapshot: bool = False
    incremental: IncrementalCleanup | None = None
    compaction: CompactionCleanup | None = None

    def is_cleanup_in_background(self) -> bool:
        """Whether strategies that were not configured are used."""
        return self.background

    def in_full_snapshot(self) -> bool:
        """Whether full snapshots exclude expired values."""
        return self.full_snapshot

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanup | None:
        """What is done with each access."""
        chosen = self.incremental or self.compaction
        return self.incremental if chosen or not self.background else IncrementalCleanup()

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> CompactionCleanup | None:
        """What is done before each checkpoint."""
        chosen = self.incremental or self.compaction
        return self.compaction if chosen or not self.background else CompactionCleanup()


@dataclass(slots=True)
class StateTtlConfigBuilder:
    """Makes a `StateTtlConfig`; each method answers the builder."""

    ttl: Length
    update_type: TtlUpdateType = TtlUpdateType.OnCreateAndWrite
    visibility: TtlVisibility = TtlVisibility.NeverReturnExpired
    characteristic: TtlTime = TtlTime.ProcessingTime
    strategies: dict[str, Any] = field(default_factory=dict)
    migrates: bool = False

    def set_update_type(self, update_type: TtlUpdateType) -> Self:
        """What prolongs a life."""
        self.update_type = update_type
        return self

    def update_ttl_on_create_and_write(self) -> Self:
        """Writing prolongs a life; the default."""
        return self.set_update_type(TtlUpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> Self:
        """Reading prolongs a life too."""
        return self.set_update_type(TtlUpdateType.OnReadAndWrite)

    def set_state_visibility(self, state_visibility: TtlVisibility) -> Self:
        """Set whether an expired value may be returned once more."""
        self.visibility = state_visibility
        return self

    def return_expired_if_not_cleaned_up(self) -> Self:
        """An expired value is returned by the read that removes it."""
        return self.set_state_visibility(TtlVisibility.ReturnExpiredIfNotCleanedUp)

    def never_return_expired(self) -> Self:
        """An expired value is never returned; the default."""
        return self.set_state_visibility(TtlVisibility.NeverReturnExpired)

    def set_ttl_time_characteristic(self, ttl_time_characteristic: TtlTime) -> Self:
        """Which time counts; there is only processing time."""
        self.characteristic = ttl_time_characteristic
        return self

    def use_processing_time(self) -> Self:
        """Processing time counts; the default."""
        return self.set_ttl_time_characteristic(TtlTime.ProcessingTime)

    def cleanup_full_snapshot(self) -> Self:
        """Full snapshots exclude expired values; the job's own state keeps them."""
        self.strategies["full_snapshot"] = True
        return self

    def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> Self:
        """Look at some entries with each access of the state, and if asked for with each record."""
        self.strategies["incremental"] = IncrementalCleanup(
            _at_least_one("cleanup_size", cleanup_size), run_cleanup_for_every_record
        )
        return self

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int = BARRIER_ENTRIES, periodic_compaction_time: Any = None
    ) -> Self:
        """Look at some entries before each checkpoint, and at all before a new base is written.

        How often files are compacted is the database's business.
        """
        self.strategies["compaction"] = CompactionCleanup(
            _at_least_one("query_time_after_num_entries", query_time_after_num_entries)
        )
        return self

    def disable_cleanup_in_background(self) -> Self:
        """Remove only when read, and where a strategy was asked for."""
        self.strategies["background"] = False
        return self

    def migrate_ttl(self) -> Self:
        """Start the time to live of values stored without one at the restore, instead of refusing them."""
        self.migrates = True
        return self

    def build(self) -> StateTtlConfig:
        """The configuration.

        Raises:
            ConfigError: the length is not at least a millisecond.
        """
        return StateTtlConfig(
            self.update_type,
            self.visibility,
            self.characteristic,
            self.ttl,
            TtlCleanup(**self.strategies),
            self.migrates,
        )


@dataclass(frozen=True, slots=True)
class StateTtlConfig:
    """Configuration of time to live: its length, what extends it, and how expired values are removed."""

    UpdateType = TtlUpdateType
    StateVisibility = TtlVisibility
    TtlTimeCharacteristic = TtlTime
    CleanupStrategies = TtlCleanup
    Builder = StateTtlConfigBuilder

    update_type: TtlUpdateType
    state_visibility: TtlVisibility
    ttl_time_characteristic: TtlTime
    ttl: Length
    cleanup_strategies: TtlCleanup = TtlCleanup()
    migrates: bool = False
    """Whether what was stored without a time to live is taken over; see `migrate_ttl`."""

    def __post_init__(self) -> None:
        length = getattr(self.ttl, "to_milliseconds", None)
        if length is None or length() < 1:
            raise ConfigError(
                f"time to live is {self.ttl!r}; expected a Time or Duration of at least one millisecond"
            )

    @property
    def left_out_ms(self) -> int:
        """How long after expiry a value is dropped when state is rewritten; 0 if no strategy is configured for that."""
        strategies = self.cleanup_strategies
        asked = strategies.full_snapshot or strategies.get_rocksdb_compact_filter_cleanup_strategy()
        return self.ttl.to_milliseconds() if asked else 0

    @staticmethod
    def new_builder(ttl: Length) -> StateTtlConfigBuilder:
        """Start from a length and the defaults."""
        return StateTtlConfigBuilder(ttl)

    def get_update_type(self) -> TtlUpdateType:
        """What prolongs a life."""
        return self.update_type

    def get_state_visibility(self) -> TtlVisibility:
        """Whether an expired value may be returned once more."""
        return self.state_visibility

    def get_ttl(self) -> Length:
        """How long."""
        return self.ttl

    def get_ttl_time_characteristic(self) -> TtlTime:
        """Which time counts."""
        return self.ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Whether anything expires."""
        return self.update_type is not TtlUpdateType.Disabled

    def get_cleanup_strategies(self) -> TtlCleanup:
        """How expired values are removed."""
        return self.cleanup_strategies


class Lifetime:
    """What the handles of one state ask at each access: what time it is, and whether something may have expired.

    All times are in nanoseconds; lives begin and end with the milliseconds that functions are told.
    `due` is when there may be something to `sweep` at an access; never, unless that is wanted.
    """

    __slots__ = ("due", "length", "now_ns", "refreshed", "shown", "sweep")

    def __init__(self, config: StateTtlConfig, now_ns: Callable[[], int]) -> None:
        self.now_ns = now_ns
        self.length = config.ttl.to_milliseconds() * NS_PER_MS
        self.refreshed = config.update_type is TtlUpdateType.OnReadAndWrite
        self.shown = config.state_visibility is TtlVisibility.ReturnExpiredIfNotCleanedUp
        self.due: float = math.inf
        self.sweep: Callable[[int], object] = int

    @property
    def shape(self) -> Callable[[tuple[int, Any]], Any]:
        """What a moment and an element of a collection are kept in.

        A list can be refreshed in place; a tuple that is only read counts as unchanged at the barrier.
        """
        return list if self.refreshed else tuple

    def now(self) -> int:
        """What time it is, in whole milliseconds; sweeps a little if that is due."""
        now = whole_ms(self.now_ns())
        if now >= self.due:
            self.sweep(now)
        return now


def whole_ms(ns: int) -> int:
    """The beginning of the millisecond of a moment."""
    return ns - ns % NS_PER_MS


def _at_least_one(name: str, entries: int) -> int:
    if entries < 1:
        raise ConfigError(f"{name} is {entries}; expected at least 1")
    return entries
