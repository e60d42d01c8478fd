"""Operator of watermark strategies: assigns timestamps and creates watermarks, in a chain or right behind a reader."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidegate.clock import Clock
from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK
from tidegate.ids import SplitId
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.operators.event_time import Learner, SplitTime
from tidegate.runtime.operators.operator import Call, Emitted, Operator, Piece, Role, StepInput, StepKind
from tidegate.runtime.stream.watermarks import Assign, Bounded, WatermarkGenerator, WatermarkStrategy

if TYPE_CHECKING:
    from tidegate.runtime.graph.stream_graph import StreamNode
    from tidegate.runtime.operators.context import OperatorContext

__all__ = ["SOURCE", "STAMP", "Stamp"]

_PERIOD_MS: Final = 200
"""How often a generator with periodic watermarks is called."""


def _open(node: StreamNode, context: OperatorContext) -> Operator | None:
    return _opened(node.payload, context.env)


def _open_source(node: StreamNode, context: OperatorContext) -> Operator | None:
    """The step of a source in its chain: assigns timestamps to the records of the reader."""
    return _opened(node.watermarks, context.env) if node.watermarks is not None else None


STAMP: Final = StepKind("stamp", _open, inputs=(StepInput(takes="any"),), gives="input", stamps=True)
SOURCE: Final = StepKind("source", _open_source, Role.SOURCE, inputs=(), landmark=True)


def _opened(strategy: WatermarkStrategy, env: ChainEnvironment) -> Operator | None:
    """The operator of a strategy; in a batch job, where nothing is late, only if it assigns timestamps."""
    if env.batch:
        if not strategy.gives_times:
            return None
        assign, _ = strategy.start(env.clock)
        return Operator((Call("stamp", assign),))
    return Stamp(strategy, env.clock, carried=env.pool_index is not None)


@dataclass(slots=True)
class _Time:
    """Event time of one split, or of a stream without splits."""

    assign: Assign
    generator: WatermarkGenerator
    known: Learner
    active_at: int
    mark: int = MIN_WATERMARK
    idle: bool = False

    def ask(self) -> None:
        mark = self.generator.watermark()
        if mark is not None and mark > self.mark:
            self.mark = mark

    def kept(self, split: SplitId | None) -> SplitTime:
        return SplitTime(split, self.mark, self.idle, self.active_at, self.known.learnt())


class Stamp(Operator):
    """Assigns timestamps and creates watermarks by a `WatermarkStrategy`.

    It replaces watermarks of its input, except the last one. If a reader reports splits, each has a generator, and the
    watermark is the smallest one of the splits that are not idle.
    """

    def __init__(self, strategy: WatermarkStrategy, clock: Clock, *, carried: bool = False) -> None:
        self._strategy = strategy
        self._carried = carried
        self._clock = clock
        self._follow(self._begin())
        self._times: dict[SplitId | None, _Time] = {None: self._current}
        self._held: frozenset[SplitId] = frozenset()
        self._emitted = MIN_WATERMARK
        self._ended = False
        self._seen = False
        self._told_idle = False
        asked = self._current.generator.asked
        self._by_clock = asked == "clock"
        self._asked_at = clock.now_ms()
        # A subtask that lives for one epoch calls it once per epoch.
        self._every_ms = None if carried or asked == "record" else strategy.every_ms
        self._told_at = self._asked_at
        self.moved = False
        """Whether the record just seen ends the batch."""
        self.patient = False
        """Whether idleness is suspended: an epoch has not read all of its input yet."""
        if type(self._current.generator) is Bounded:
            call = Call("stamp", self._stamp, context=self)
        elif asked == "record":
            call = Call("stamp", self._stamp_and_ask, cut=self)
        else:
            call = Call("stamp", self._stamp)
        super().__init__((call,))

    @property
    def time(self) -> int | None:
        """The watermark over all splits; None while all are idle."""
        return min((time.mark for time in self._times.values() if not time.idle), default=None)

    def kept(self) -> tuple[SplitTime, ...]:
        """The event time of each split.

        Raises:
            ConfigError: the state of a generator cannot be encoded, and would be lost.
        """
        return tuple(time.kept(split) for split, time in self._times.items())

    def resume(self, passed: int, splits: Mapping[SplitId | None, SplitTime | None], since_ms: int) -> None:
        """Restore the event time of these splits; a split without records before `since_ms` has had none since `since_ms`."""
        self._emitted = passed
        self._times = {split: self._resumed(kept, since_ms) for split, kept in splits.items()}
        self._follow(next(iter(self._times.values())))

    def stamping(self) -> tuple[Assign, WatermarkGenerator]:
        """The function that assigns timestamps in a batch, and the generator that gets the newest of them."""
        self._seen = True
        return self._assign, self._current.generator

    def read(self, split: SplitId, unfinished: Collection[SplitId]) -> None:
        """The next records belong to `split`; the watermark waits for all splits in `unfinished`."""
        wanted = {split, *unfinished}
        if self._times.keys() != wanted:
            self._times = {each: self._times.get(each) or self._begin() for each in wanted}
        self._follow(self._times[split])

    def forget(self, split: SplitId) -> None:
        """A split is read to its end and does not hold the watermark back any more, unless it was the last one."""
        if len(self._times) > 1:
            del self._times[split]

    def ahead_of(self, limit: int) -> frozenset[SplitId]:
        """The splits whose watermark is beyond `limit`."""
        return frozenset(split for split, time in self._times.items() if split and time.mark > limit)

    def hold(self, splits: frozenset[SplitId]) -> None:
        """These splits are paused, which does not make them idle."""
        for split in (self._held - splits) & self._times.keys():
            self._times[split].active_at = self._clock.now_ms()
        self._held = splits

    def forwarded(self, watermark: int) -> int | None:
        """Only the last watermark."""
        self._ended = self._ended or watermark == MAX_WATERMARK
        return watermark if self._ended else None

    def own_watermark(self) -> int | None:
        """The watermark over all splits if it moved."""
        self.moved = False
        if self._every_ms is not None and not self._ended:
            now_ms = self._clock.now_ms()
            if not self._every_ms or now_ms < self._told_at + self._every_ms:
                return None
            self._told_at = now_ms
        for each in self._times.values() if self._by_clock else (self._current,):
            each.ask()
        watermark = self.time
        if self._ended or watermark is None or watermark <= self._emitted:
            return None
        self._emitted = watermark
        return watermark

    def own_idleness(self) -> bool | None:
        """Whether no record came within the idle timeout of the strategy."""
        if self._strategy.idle_after_ms is None:
            return None
        if self._seen:
            self._seen, self._current.idle = False, False
            self._current.active_at = self._clock.now_ms()
        idle = all(time.idle for time in self._times.values())
        if idle == self._told_idle:
            return None
        self._told_idle = idle
        return idle

    def processing_time(self, now_ms: int, piece: Piece) -> Emitted | None:
        """Detect idleness, and call generators with periodic watermarks."""
        self._note_time(now_ms)
        self._asked_at = now_ms
        patience = self._strategy.idle_after_ms
        if patience is not None and not self.patient:
            for time in self._awaited():
                time.idle = now_ms >= time.active_at + patience
        return None

    def next_processing_time(self) -> int | None:
        """When a split may become idle, or the generator is called again."""
        if self._ended:
            return None
        self._note_time(self._clock.now_ms())
        patience = self._strategy.idle_after_ms
        judged = [] if patience is None or self.patient else self._awaited()
        times = [time.active_at + (patience or 0) for time in judged]
        if self._every_ms:
            times.append(self._told_at + self._every_ms)
        elif self._by_clock and self._every_ms is None:
            times.append(self._asked_at + _PERIOD_MS)
        return min(times, default=None)

    def _note_time(self, now_ms: int) -> None:
        """Limit restored times to now: otherwise event time would stop for as long as the wall clock was set back."""
        self._asked_at, self._told_at = min(self._asked_at, now_ms), min(self._told_at, now_ms)
        for time in self._times.values():
            time.active_at = min(time.active_at, now_ms)

    def _awaited(self) -> list[_Time]:
        return [time for split, time in self._times.items() if not time.idle and split not in self._held]

    def _begin(self) -> _Time:
        assign, generator = self._strategy.start(self._clock)
        known = Learner(generator.learner, carried=self._carried)
        return _Time(assign, generator, known, self._clock.now_ms())

    def _resumed(self, kept: SplitTime | None, since_ms: int) -> _Time:
        time = self._begin()
        if kept is not None:
            time.mark, time.idle, time.active_at = kept.mark, kept.idle, max(since_ms, kept.active_at)
            time.known.remind(kept.learnt)
        return time

    def _follow(self, time: _Time) -> None:
        self._current, self._assign, self._on_event = time, time.assign, time.generator.on_event

    def _stamp(self, value: Any, timestamp: int | None) -> int:
        assigned = self._assign(value, timestamp)
        self._on_event(value, assigned)
        self._seen = True
        return assigned

    def _stamp_and_ask(self, value: Any, timestamp: int | None) -> int:
        assigned = self._stamp(value, timestamp)
        self._current.ask()
        time = self.time
        self.moved = time is not None and time > self._emitted
        return assigned
