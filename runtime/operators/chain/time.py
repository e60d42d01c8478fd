"""Time of a chain: passes watermarks and idleness from step to step, and fires what is due.

What a watermark makes due may be a million records. So it is worked off in pieces: the steps that it has reached and
not passed stand on a stack, the next one on top, and a barrier between two pieces finds their timers in state. A
checkpoint then keeps the watermark in front of these steps, too, which reaches them again after a restore.
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
    """A time that a step has been told, which may not have emitted all that is due by it."""

    uid: OperatorUid
    time: int
    by_clock: bool = False


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
        self._arrived: dict[OperatorUid, int] = {}
        """How far it is in front of each step."""
        self._moves: list[_Move] = []
        """What time has still to do in the chain, the next last."""
        self._reach: dict[OperatorUid, list[OperatorUid]] = {}

    def open(self) -> None:
        """Let watermarks that a checkpoint found in front of steps reach them again, before any record.

        Of two steps that had one each, the one behind was to be done first.
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
        """Event time is `timestamp` for all input from now on: what is due by it is to be worked off, step by step."""
        self.settle()
        self._arrive(self._vertex.head.uid, timestamp)

    def advance_processing_time(self, now_ms: int) -> None:
        """What is due by the clock is to be worked off."""
        self.settle()
        self._moves += reversed([_Move(uid, now_ms, by_clock=True) for uid, _ in self._by_clock()])

    @property
    def due(self) -> int:
        """How many steps have something to work off that time has made due; nothing else comes before it but barriers."""
        return len(self._moves)

    def work(self, piece: Piece) -> int | None:
        """Work off some of what is due; returns how many records were emitted, None where they cannot be taken now."""
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
        """Work off all that is due."""
        self._settle(0)

    def advance_idleness(self, idle: bool) -> None:
        """Whether all inputs are idle has changed."""
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
        """Pass on what deferring operators have finished, records and time in order; whether there was any."""
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
        """How far event time is behind each step that knows of any, unless it is at its end."""
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
        """Operators whose timers follow the clock; in a batch job timers of a key wait for its end."""
        for uid, operator in self._operators.all():
            if operator.store is None or not self._env.batch:
                yield uid, operator

    def _arrive(self, uid: OperatorUid, timestamp: int) -> None:
        """Time never goes back, also where a checkpoint has brought it further than its inputs say."""
        if timestamp >= self._arrived.get(uid, timestamp):
            self._arrived[uid] = timestamp
            self._moves.append(_Move(uid, timestamp))

    def _ready(self) -> bool:
        """Whether operators that what is due goes to can take it."""
        deferring = self._operators.deferring
        return all(deferring[uid].ready() for uid in self._behind(self._moves[-1].uid) if uid in deferring)

    def _settle(self, due: int) -> None:
        while len(self._moves) > due:
            self._step(self._moves[-1], Piece())

    def _step(self, move: _Move, piece: Piece) -> int:
        """Fire some of what a step has due; once that is all, time passes it."""
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
        """Pass on what operators have to say about event time themselves, of those that records of a step come to.

        With `since`, more records come at once: what has been made due beyond so many steps comes before them.
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
        """A step and all behind it; those in front first."""
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
