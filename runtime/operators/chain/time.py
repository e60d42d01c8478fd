"""Time of a chain: passes watermarks and idleness from step to step, and fires what is due."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK, Batch, Idle, Watermark
from tidegate.ids import OperatorUid, SplitId
from tidegate.runtime.operators.chain.loops import ChainLoops, Outlet
from tidegate.runtime.operators.chain.operators import ChainOperators
from tidegate.runtime.operators.environment import ChainEnvironment, OperatorReport
from tidegate.runtime.operators.event_time import EventTime, reached
from tidegate.runtime.operators.operator import Operator
from tidegate.runtime.operators.stamp import Stamp

if TYPE_CHECKING:
    from tidegate.runtime.graph.job_graph import JobVertex

__all__ = ["ChainTime"]


class ChainTime:
    """How far time is behind each step of a chain; moves it on, with what operators emit because of it."""

    def __init__(
        self,
        vertex: JobVertex,
        env: ChainEnvironment,
        operators: ChainOperators,
        data: ChainLoops,
        outlet: Outlet,
    ) -> None:
        self.reached: int | None = None
        """How far event time is behind the last step; None before there is any."""
        self._vertex = vertex
        self._env = env
        self._operators = operators
        self._data = data
        self._outlet = outlet
        self._passed: dict[OperatorUid, int] = {}
        """How far it is behind each step."""

    def resume(self, splits: Collection[SplitId], since_ms: int) -> int:
        """Continue event time where the checkpoint left it and send it on; returns where it is for the first step.

        No split is idle before `end_epoch`: until then there may be records that have not been read.
        """
        index, parallelism = self._env.subtask.index, self._env.parallelism
        for uid in self._vertex.nodes:
            restored, operator = self._env.operator(uid), self._operators.get(uid)
            time = reached(restored.times, restored.parallelism, index, parallelism)
            if isinstance(operator, Stamp):
                alike = restored.parallelism == parallelism
                kept = {
                    split.split: split
                    for each in restored.times
                    for split in each.splits
                    if split.split is not None or (alike and each.subtask == index)
                }
                operator.resume(time, {split: kept.get(split) for split in splits or (None,)}, since_ms)
                operator.patient = True
            if time > MIN_WATERMARK:
                if operator is not None:
                    operator.begin(time)
                self._tell(uid, time)
        return self._passed.get(self._vertex.head.uid, MIN_WATERMARK)

    def end_epoch(self) -> None:
        """All input of the epoch has been read: decide which splits are idle, and fire what is due by the clock."""
        for _, operator in self._operators.all():
            if isinstance(operator, Stamp):
                operator.patient = False
        self.advance_processing_time(self._env.clock.now_ms())

    def advance_watermark(self, timestamp: int) -> None:
        """Event time is `timestamp` for all input from now on: fire what is due, step by step."""
        self._flow(self._vertex.head.uid, timestamp)

    def advance_processing_time(self, now_ms: int) -> None:
        """Fire what is due by the clock."""
        for uid, operator in self._by_clock():
            with self._operators.blame(uid, f"a timer due by {now_ms}"):
                values, times = operator.processing_time(now_ms)
            if values:
                self._data.run(uid, None, Batch(values, times))
            self._data.note(operator, "processing", now_ms)
        self.announce()
        self._data.let_go()

    def advance_idleness(self, idle: bool) -> None:
        """Whether all inputs are idle has changed."""
        head = self._vertex.head.uid
        deferring = self._operators.deferring.get(head)
        if deferring is not None:
            deferring.idle(idle)
        else:
            self._pass_idleness(head, idle)

    def announce(self) -> None:
        """Pass on what operators have to say about event time themselves."""
        for uid, operator in self._operators.all():
            idle = operator.own_idleness()
            if idle is not None:
                self._pass_idleness(uid, idle)
            watermark = operator.own_watermark()
            if watermark is not None:
                self._pass_on(uid, watermark)

    def next_timer(self) -> int | None:
        """When the next processing-time timer is due."""
        times = (operator.next_processing_time() for _, operator in self._by_clock())
        return min((time for time in times if time is not None), default=None)

    def send_arrivals(self) -> bool:
        """Pass on what deferring operators have finished, records and time in order; whether there was any."""
        some = False
        for uid, operator in self._operators.deferring.items():
            for element in operator.arrivals():
                some = True
                if isinstance(element, Batch):
                    self._data.run(uid, None, element)
                elif isinstance(element, Watermark):
                    self._pass_on(uid, element.timestamp)
                elif isinstance(element, Idle):
                    self._pass_idleness(uid, element.idle)
        self._data.let_go()
        return some

    def reports(self) -> list[OperatorReport]:
        """How far event time is behind each step that knows of any, unless it is at its end."""
        index = self._env.subtask.index
        stamps = {uid: each.kept() for uid, each in self._operators.all() if isinstance(each, Stamp)}
        passed = dict.fromkeys(stamps, MIN_WATERMARK) | self._passed
        return [
            OperatorReport(uid, index, time=EventTime(index, time, stamps.get(uid, ())))
            for uid, time in passed.items()
            if time < MAX_WATERMARK
        ]

    def _by_clock(self) -> Iterator[tuple[OperatorUid, Operator]]:
        """Operators whose timers follow the clock; in a batch job timers of a key wait for its end."""
        for uid, operator in self._operators.all():
            if operator.store is None or not self._env.batch:
                yield uid, operator

    def _flow(self, uid: OperatorUid, timestamp: int) -> None:
        operator = self._operators.get(uid)
        if operator is not None:
            with self._operators.blame(uid, f"a timer due by watermark {timestamp}"):
                values, times = operator.event_time(timestamp)
            if values:
                self._data.run(uid, None, Batch(values, times))
            self._data.note(operator, "event", timestamp)
            forwarded = operator.forwarded(timestamp)
            if forwarded is None:
                return
            timestamp = forwarded
        self._pass_on(uid, timestamp)

    def _pass_on(self, uid: OperatorUid, timestamp: int) -> None:
        self._data.let_go()
        self._tell(uid, timestamp)
        for child in self._vertex.follows[uid]:
            self._flow(child, timestamp)

    def _tell(self, uid: OperatorUid, timestamp: int) -> None:
        self.reached = self._passed[uid] = timestamp
        for edge in self._vertex.outputs:
            if edge.node == uid:
                self._outlet.watermark(edge, timestamp)

    def _pass_idleness(self, uid: OperatorUid, idle: bool) -> None:
        self._data.let_go()
        for edge in self._vertex.outputs:
            if edge.node == uid:
                self._outlet.idle(edge, idle)
        for child in self._vertex.follows[uid]:
            if child in self._operators.deferring:
                self._operators.deferring[child].idle(idle)
            elif not self._vertex.nodes[child].kind.stamps:
                self._pass_idleness(child, idle)
