"""Time of a chain: passes watermarks and idleness from step to step, and fires due timers.

A watermark may fire a million timers. So they fire in pieces: the steps that the watermark has reached and not passed
are on a stack, the next one on top, and a barrier between two pieces finds their timers in state. The checkpoint then
also keeps the watermark before these steps, and a restore repeats it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import UNSET

from tidegate import faults
from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK, Batch, Idle, Watermark
from tidegate.ids import OperatorUid, SplitId
from tidegate.runtime.operators.chain.loops import ChainLoops, Outlet
from tidegate.runtime.operators.chain.operators import ChainOperators
from tidegate.runtime.operators.environment import ChainEnvironment, OperatorReport
from tidegate.runtime.operators.event_time import EventTime, reached, unfinished
from tidegate.runtime.operators.operator import Operator, Piece
from tidegate.runtime.operators.stamp import Stamp

if TYPE_CHECKING:
    from tidegate.runtime.graph.job_graph import JobVertex

__all__ = ["ChainTime"]


@dataclass(frozen=True, slots=True)
class _Move:
    """A watermark or processing time that a step has got, with timers that may not have fired yet."""

    uid: OperatorUid
    time: int
    by_clock: bool = False


class ChainTime:
    """The watermark of each step of a chain; advances it, and passes on what timers emit."""

    def __init__(
        self,
        vertex: JobVertex,
        env: ChainEnvironment,
        operators: ChainOperators,
        data: ChainLoops,
        outlet: Outlet,
    ) -> None:
        self.reached: int | None = None
        """The watermark after the last step; None before the first one."""
        self._vertex = vertex
        self._env = env
        self._operators = operators
        self._data = data
        self._outlet = outlet
        self._passed: dict[OperatorUid, int] = {}
        """The watermark after each step."""
        self._arrived: dict[OperatorUid, int] = {}
        """The watermark before each step."""
        self._moves: list[_Move] = []
        """Steps with due timers, the next one last."""
        self._reach: dict[OperatorUid, list[OperatorUid]] = {}

    def open(self) -> None:
        """Repeat the watermarks that a checkpoint holds before steps, ahead of any record.

        If two steps had one, the later step is processed first.
        """
        self._data.wire(self, self._announce)
        for uid in self._vertex.nodes:
            before = self._env.operator(uid)
            time = unfinished(
                before.times, before.parallelism, self._env.subtask.index, self._env.parallelism
            )
            if time is not None:
                self._arrive(uid, time)

    def resume(self, splits: Collection[SplitId], since_ms: int) -> int:
        """Restore the watermarks of the checkpoint and send them on; returns that of the first step.

        No split becomes idle before `end_epoch`: until then there may be unread records.
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
        """All input of the epoch has been read: decide which splits are idle, and fire processing-time timers."""
        for _, operator in self._operators.all():
            if isinstance(operator, Stamp):
                operator.patient = False
        self.advance_processing_time(self._env.clock.now_ms())

    def advance_watermark(self, timestamp: int) -> None:
        """The watermark of the input is `timestamp`: schedule the timers due by it, step by step."""
        self.settle()
        self._arrive(self._vertex.head.uid, timestamp)

    def advance_processing_time(self, now_ms: int) -> None:
        """Schedule the processing-time timers that are due."""
        self.settle()
        self._moves += reversed([_Move(uid, now_ms, by_clock=True) for uid, _ in self._by_clock()])

    @property
    def due(self) -> int:
        """The number of steps with due timers; only barriers are processed before them."""
        return len(self._moves)

    def work(self, piece: Piece) -> int | None:
        """Fire some of the due timers; returns the number of emitted records, None if a later step cannot accept them now."""
        records = 0
        while self._moves and not records and not piece.full(0):
            if not self._ready():
                return None
            records = self._step(self._moves[-1], piece)
        if not self._moves:
            self._announce(self._vertex.head.uid)
        self._data.let_go()
        return records

    def settle(self) -> None:
        """Fire all due timers."""
        self._settle(0)

    def advance_idleness(self, idle: bool) -> None:
        """The idleness of the input has changed."""
        head = self._vertex.head.uid
        deferring = self._operators.deferring.get(head)
        if deferring is not None:
            deferring.idle(idle)
        else:
            self._pass_idleness(head, idle)

    def next_timer(self) -> int | None:
        """When the next processing-time timer is due."""
        times = (operator.next_processing_time() for _, operator in self._by_clock())
        return min((time for time in times if time is not None), default=None)

    def send_arrivals(self) -> bool:
        """Pass on the results of asynchronous operators, records and watermarks in order; returns whether there were any."""
        some, due = False, len(self._moves)
        for uid, operator in self._operators.deferring.items():
            for element in operator.arrivals():
                some = True
                if isinstance(element, Batch):
                    self._data.run(uid, None, element)
                elif isinstance(element, Watermark):
                    self._pass_on(uid, element.timestamp)
                elif isinstance(element, Idle):
                    self._pass_idleness(uid, element.idle)
                self._settle(due)
        self._data.let_go()
        return some

    def reports(self) -> list[OperatorReport]:
        """The watermark after each step that has one, except the last watermark."""
        index = self._env.subtask.index
        stamps = {uid: each.kept() for uid, each in self._operators.all() if isinstance(each, Stamp)}
        arrived = {
            move.uid: move.time for move in self._moves if not move.by_clock and move.time < MAX_WATERMARK
        }
        passed = dict.fromkeys([*stamps, *arrived], MIN_WATERMARK) | self._passed
        return [
            OperatorReport(
                uid, index, time=EventTime(index, time, stamps.get(uid, ()), arrived.get(uid, UNSET))
            )
            for uid, time in passed.items()
            if time < MAX_WATERMARK
        ]

    def _by_clock(self) -> Iterator[tuple[OperatorUid, Operator]]:
        """Operators with processing-time timers; in a batch job timers of a key fire at its end."""
        for uid, operator in self._operators.all():
            if operator.store is None or not self._env.batch:
                yield uid, operator

    def _arrive(self, uid: OperatorUid, timestamp: int) -> None:
        """Watermarks never decrease, even if the restored one is ahead of the inputs."""
        if timestamp >= self._arrived.get(uid, timestamp):
            self._arrived[uid] = timestamp
            self._moves.append(_Move(uid, timestamp))

    def _ready(self) -> bool:
        """Whether the operators after the due timers can accept their output."""
        deferring = self._operators.deferring
        return all(deferring[uid].ready() for uid in self._behind(self._moves[-1].uid) if uid in deferring)

    def _settle(self, due: int) -> None:
        while len(self._moves) > due:
            self._step(self._moves[-1], Piece())

    def _step(self, move: _Move, piece: Piece) -> int:
        """Fire some due timers of a step; after the last one pass the watermark on."""
        uid, operator, records = move.uid, self._operators.get(move.uid), 0
        if operator is not None:
            fire = operator.processing_time if move.by_clock else operator.event_time
            doing = f"a timer due by {'' if move.by_clock else 'watermark '}{move.time}"
            with self._operators.blame(uid, doing):
                emitted = fire(move.time, piece)
            if emitted is not None:
                records = self._data.emitted(uid, emitted)
            self._data.note(operator, "processing" if move.by_clock else "event", move.time)
            if emitted is not None:
                faults.point("timers.after-piece")
                return records
        self._moves.pop()
        if not move.by_clock:
            forwarded = operator.forwarded(move.time) if operator is not None else move.time
            if forwarded is not None:
                self._pass_on(uid, forwarded)
        return 0

    def _announce(self, uid: OperatorUid, since: int | None = None) -> None:
        """Pass on watermarks and idleness that operators create themselves, for those that records of a step reach.

        With `since`, more records follow at once: timers of steps above this number fire before them.
        """
        for behind in self._behind(uid):
            operator = self._operators.get(behind)
            if operator is None:
                continue
            idle = operator.own_idleness()
            if idle is not None:
                self._pass_idleness(behind, idle)
            watermark = operator.own_watermark()
            if watermark is not None:
                self._pass_on(behind, watermark)
        if since is not None:
            self._settle(since)

    def _behind(self, uid: OperatorUid) -> Sequence[OperatorUid]:
        """A step and all steps after it, in order."""
        known = self._reach.get(uid)
        if known is None:
            found = {uid}
            for each in self._vertex.nodes:
                if each in found:
                    found.update(self._vertex.follows[each])
            known = self._reach[uid] = [each for each in self._vertex.nodes if each in found]
        return known

    def _pass_on(self, uid: OperatorUid, timestamp: int) -> None:
        self._data.let_go()
        self._tell(uid, timestamp)
        for child in reversed(self._vertex.follows[uid]):
            self._arrive(child, timestamp)

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
