"""A chain of operators at work in one subtask: what a record meets between two exchanges.

The chain knows nothing of threads, channels or executors. It takes batches and moments in time, hands to its outlet
what leaves through an exchange, and reports its part of a checkpoint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, Final, Protocol

from tidegate import faults
from tidegate.backends.keyed.journal import TimersDue
from tidegate.backends.keyed.row import Row
from tidegate.backends.keyed.snapshot import finish_all
from tidegate.backends.keyed.store import KeyedStore
from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK, Batch, Idle, Watermark
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId, OperatorUid, SplitId
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.operators.codegen import Compiled, Encoder, Stage, compile_stages
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.contexts import is_keyed, open_context
from tidegate.runtime.operators.environment import ChainEnvironment, OperatorReport
from tidegate.runtime.operators.event_time import EventTime, reached
from tidegate.runtime.operators.failure import blame, explain, refused
from tidegate.runtime.operators.lifecycle import ManagedFunctions
from tidegate.runtime.operators.openers import open_operator
from tidegate.runtime.operators.operator import Call, Deferring, Operator
from tidegate.runtime.operators.operator_list import written
from tidegate.runtime.operators.renamed import refuse_renamed
from tidegate.runtime.operators.rows import Declared, settled, shaper
from tidegate.runtime.operators.sink import SinkOperator
from tidegate.runtime.operators.stamp import Stamp
from tidegate.runtime.operators.tracing import Tracer
from tidegate.runtime.stream.functions import Function

__all__ = ["OperatorChain", "Outlet", "PendingReports"]

_TYPED: Final = frozenset({"map", "flat_map", "process", "co_map", "co_flat_map", "co_process"})
"""Steps whose function says what its results are."""


class Outlet(Protocol):
    """Takes what leaves the chain through its exchanges."""

    def emit(self, edge: JobEdge, batch: Batch) -> None:
        """Deal the batch to the subtasks behind `edge`."""
        ...

    def watermark(self, edge: JobEdge, timestamp: int) -> None:
        """Tell all subtasks behind `edge` how far event time is."""
        ...

    def idle(self, edge: JobEdge, idle: bool) -> None:
        """Tell all subtasks behind `edge` whether to wait for this one's event time."""
        ...


PendingReports = Callable[[], list[OperatorReport]]
"""The slow part of a snapshot; may run in another thread while records go on."""


class OperatorChain:
    """Opens, feeds, snapshots and closes the operators of one vertex in one subtask."""

    def __init__(self, vertex: JobVertex, env: ChainEnvironment, outlet: Outlet) -> None:
        self._vertex = vertex
        self._env = env
        self._outlet = outlet
        self._tracer = Tracer(vertex.head.uid) if env.traced else None
        self._takers: list[Callable[[Batch], None]] = []
        self._sinks: dict[int, SinkOperator] = {}
        """By the output that they take."""
        self._encoders: dict[int, Encoder] = {}
        self._functions: list[tuple[StreamNode, Function]] = []
        self._contexts: dict[OperatorUid, OperatorContext] = {}
        self._operators: dict[OperatorUid, Operator] = {}
        self._deferring: dict[OperatorUid, Deferring] = {}
        self._stages: dict[OperatorUid, Stage] = {}
        self._compiled: dict[tuple[OperatorUid, int | None, bool], Compiled] = {}
        self._fell_short = False
        """Whether a function or a sink could not make its part of the last snapshot durable."""
        self.time: int | None = None
        """How far event time is behind the last step; None before there is any."""
        self._passed: dict[OperatorUid, int] = {}
        """How far it is behind each step."""
        self._outputs = {uid: self._open_outputs(uid) for uid in vertex.nodes}

    def open(self) -> None:
        """Open state, functions and writers, restored to what the environment says."""
        for node in self._vertex.nodes.values():
            if node.kind not in ("sink", "side"):
                self.open_step(node)
        for output, sink in self._sinks.items():
            self._open_sink(output, sink)
        self._build(self._vertex.head.uid, stateful=False)
        for operator in self._operators.values():
            operator.open()

    def open_step(self, node: StreamNode) -> None:
        """Open the state and the function of a step that is no sink; `open` does so for all."""
        context = self._open_context(node)
        if node.kind != "source":
            if isinstance(node.payload, Function):
                self._functions.append((node, node.payload))
            with blame(node, self._env.subtask, "open"):
                context.functions.open(node.payload)
        operator = open_operator(node, context, keyed=is_keyed(self._vertex, node))
        refuse_renamed(node.uid, context, self._env.operator(node.uid))
        if operator is not None:
            self._operators[node.uid] = operator
        if isinstance(operator, Deferring):
            self._deferring[node.uid] = operator

    def context(self, uid: OperatorUid) -> OperatorContext:
        """What the functions of a step get; for those of sources, which readers run."""
        return self._contexts[uid]

    def completed(self, checkpoint: CheckpointId) -> None:
        """Tell all functions that a checkpoint is settled."""
        self._for_functions("notify_checkpoint_complete", lambda functions: functions.completed(checkpoint))

    def aborted(self, checkpoint: CheckpointId) -> None:
        """Tell all functions that a checkpoint was given up."""
        self._for_functions("notify_checkpoint_aborted", lambda functions: functions.aborted(checkpoint))

    def stamp(self, uid: OperatorUid) -> Stamp | None:
        """The step's own event time, if it makes some."""
        operator = self._operators.get(uid)
        return operator if isinstance(operator, Stamp) else None

    def resume_time(self, at_hand: Collection[SplitId], since_ms: int) -> int:
        """Let event time go on where the checkpoint left it, and say so to all behind; where it is for the first step.

        Nobody is idle before `end_epoch`: until then there may be records that have not been asked for.
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
                operator.resume(time, {split: kept.get(split) for split in at_hand or (None,)}, since_ms)
                operator.patient = True
            if time > MIN_WATERMARK:
                if operator is not None:
                    operator.begin(time)
                self._tell(uid, time)
        return self._passed.get(self._vertex.head.uid, MIN_WATERMARK)

    def end_epoch(self) -> None:
        """All that there is to read is read: see who is idle, and fire what is due by the clock."""
        for operator in self._operators.values():
            if isinstance(operator, Stamp):
                operator.patient = False
        self.advance_processing_time(self._env.clock.now_ms())

    @property
    def stores(self) -> dict[OperatorUid, KeyedStore]:
        """The keyed state of each operator that has some."""
        return {uid: each.store for uid, each in self._operators.items() if each.store is not None}

    def process(self, batch: Batch, side: int = 0, *, at: OperatorUid | None = None) -> None:
        """Pass every record through the whole chain, or on from a step `at`; `side` is the input it came in on."""
        head = self._vertex.head.uid if at is None else at
        store = self._operators[head].store if head in self._operators else None
        rows = store.prefetch(batch.keys) if store is not None and batch.keys is not None else None
        if self._tracer is None:
            self._run(head, side, batch, rows)
        else:
            for place, alone in enumerate(self._tracer.one_by_one(batch)):
                self._run(head, side, alone, rows[place : place + 1] if rows is not None else None)
                if store is not None:
                    store.note(self._tracer.origin)
            self._tracer.let_go()
        if store is not None:
            store.end_batch()
        faults.point("task.after-batch")

    @property
    def by_key(self) -> bool:
        """Whether the first step keeps something per key, so that a batch job brings it one key after the other."""
        head = self._operators.get(self._vertex.head.uid)
        return head is not None and head.store is not None

    def end_key(self) -> None:
        """All records of a key have been processed: fire its timers, then forget its state."""
        head = self._vertex.head
        operator = self._operators[head.uid]
        assert operator.store is not None
        blamed = blame(head, self._env.subtask, "a timer at the end of its key")
        with operator.store.last_of_key(), blamed:
            for fire in (operator.event_time, operator.processing_time):
                values, times = fire(MAX_WATERMARK)
                if values:
                    self._run(head.uid, None, Batch(values, times))
        operator.event_time(MIN_WATERMARK)

    def ready(self) -> bool:
        """Whether every operator can take another batch."""
        return all(operator.ready() for operator in self._deferring.values())

    def empty(self) -> bool:
        """Whether everything that went in has come out."""
        return all(operator.empty() for operator in self._deferring.values())

    def settled(self) -> bool:
        """Whether a snapshot can be taken."""
        return all(operator.settled() for operator in self._deferring.values())

    def send_arrivals(self) -> bool:
        """Pass on what has come out by now of what went in earlier; whether there was any."""
        some = False
        for uid, operator in self._deferring.items():
            for element in operator.arrivals():
                some = True
                if isinstance(element, Batch):
                    self._run(uid, None, element)
                elif isinstance(element, Watermark):
                    self._pass_on(uid, element.timestamp)
                elif isinstance(element, Idle):
                    self._pass_idleness(uid, element.idle)
        self._let_go()
        return some

    def advance_watermark(self, timestamp: int) -> None:
        """Event time is `timestamp` for all input from now on: fire what is due, step by step."""
        self._flow(self._vertex.head.uid, timestamp)

    def advance_processing_time(self, now_ms: int) -> None:
        """Fire what is due by the clock."""
        for uid, operator in self._by_clock():
            with blame(self._vertex.nodes[uid], self._env.subtask, f"a timer due by {now_ms}"):
                values, times = operator.processing_time(now_ms)
            if values:
                self._run(uid, None, Batch(values, times))
            self._note(operator, "processing", now_ms)
        self.announce()
        self._let_go()

    def advance_idleness(self, idle: bool) -> None:
        """Whether all inputs are idle has changed."""
        head = self._vertex.head.uid
        if head in self._deferring:
            self._deferring[head].idle(idle)
        else:
            self._pass_idleness(head, idle)

    def announce(self) -> None:
        """Pass on what operators have to say about event time themselves."""
        for uid, operator in self._operators.items():
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

    def snapshot(self, checkpoint: CheckpointId, confirmed: CheckpointId | None) -> PendingReports:
        """Take the state at a barrier; `confirmed` is the newest decided checkpoint.

        What is returned raises UnavailableError if the checkpoint is to be declined.

        Raises:
            UnavailableError: a function or a sink could not save what it holds, for the second time in a row.
        """
        faults.point("task.before-snapshot")
        try:
            reports = self._save(checkpoint, confirmed)
        except UnavailableError as error:
            # Some come back to it with the next barrier; for the others nothing but a restart helps.
            if self._fell_short:
                raise
            self._fell_short = True
            return partial(_decline, error)
        self._fell_short = False
        index = self._env.subtask.index
        reports += self._times()
        pending = {
            uid: operator.store.snapshot(checkpoint, confirmed)
            for uid, operator in self._operators.items()
            if operator.store is not None
        }
        lists = {uid: context.functions.snapshot() for uid, context in self._contexts.items()}
        for uid, operator in self._operators.items():
            lists[uid] = operator.snapshot_lists() + lists[uid]

        def finish() -> list[OperatorReport]:
            keyed = finish_all(pending)
            dropped = {uid: each.dropped for uid, each in pending.items()}
            kept = {
                uid: tuple(written(each, self._env.state.files) for each in held)
                for uid, held in lists.items()
            }
            return reports + [
                OperatorReport(uid, index, keyed=keyed.get(uid), lists=held, dropped=dropped.get(uid, ()))
                for uid, held in kept.items()
                if uid in keyed or held
            ]

        return finish

    def _save(self, checkpoint: CheckpointId, confirmed: CheckpointId | None) -> list[OperatorReport]:
        self._for_functions("snapshot_state", lambda functions: functions.save(checkpoint))
        return [sink.snapshot(checkpoint, confirmed) for sink in self._sinks.values()]

    @property
    def spent(self) -> bool:
        """Whether nothing of it is needed but what it has emitted: no output, and nothing that a checkpoint would hold."""
        return not (
            self._sinks
            or any(operator.snapshot_lists() for operator in self._operators.values())
            or any(context.functions.checkpointed for context in self._contexts.values())
        )

    def spare_ms(self) -> float:
        """How long the decision on what the sinks reported last can wait; infinite if nothing expires.

        Raises:
            UnavailableError: some of it could expire before its commit.
        """
        return min((sink.spare_ms() for sink in self._sinks.values()), default=float("inf"))

    def close(self) -> None:
        """Close functions, writers and state; all of them, even if one fails."""
        closers: list[Callable[[], None]] = [partial(self._close_function, *each) for each in self._functions]
        closers += [sink.close for sink in self._sinks.values()]
        _call_all([*closers, *(operator.close for operator in self._operators.values())])

    def explain(self, timed: bool = False, side: int = 0) -> str:
        """The source of the generated loop for an input."""
        return self._compile(self._vertex.head.uid, side, timed, {}).source

    def _by_clock(self) -> Iterator[tuple[OperatorUid, Operator]]:
        """Whom the clock concerns: in a batch job timers of a key wait for its end."""
        for uid, operator in self._operators.items():
            if operator.store is None or not self._env.batch:
                yield uid, operator

    def _for_functions(self, doing: str, call: Callable[[ManagedFunctions], None]) -> None:
        for uid, context in self._contexts.items():
            with blame(self._vertex.nodes[uid], self._env.subtask, doing):
                call(context.functions)

    def _open_context(self, node: StreamNode) -> OperatorContext:
        context = self._contexts[node.uid] = open_context(self._vertex, node, self._env)
        return context

    def _open_sink(self, output: int, sink: SinkOperator) -> None:
        context = self._open_context(self._vertex.nodes[sink.uid])
        sink.open(context)
        refuse_renamed(sink.uid, context, self._env.operator(sink.uid))
        if context.store is not None:
            # Its function asks for state of keys, so each record is written while its key is bound.
            call = Call("emit", sink.write_one, bind=context.store.cursor)
            self._operators[sink.uid] = Operator((call,), context.store)
        elif sink.encoding is not None:
            encode, self._takers[output] = sink.encoding
            self._encoders[output] = Encoder(sink.uid, encode)

    def _close_function(self, node: StreamNode, function: Function) -> None:
        with blame(node, self._env.subtask, "close"):
            function.close()

    def _flow(self, uid: OperatorUid, timestamp: int) -> None:
        if self._vertex.nodes[uid].kind == "sink":
            next(sink for sink in self._sinks.values() if sink.uid == uid).watermark(timestamp)
        operator = self._operators.get(uid)
        if operator is not None:
            with blame(self._vertex.nodes[uid], self._env.subtask, f"a timer due by watermark {timestamp}"):
                values, times = operator.event_time(timestamp)
            if values:
                self._run(uid, None, Batch(values, times))
            self._note(operator, "event", timestamp)
            forwarded = operator.forwarded(timestamp)
            if forwarded is None:
                return
            timestamp = forwarded
        self._pass_on(uid, timestamp)

    def _note(self, operator: Operator, service: str, until: int) -> None:
        if self._tracer is not None and operator.store is not None:
            operator.store.note(TimersDue(service, until))

    def _let_go(self) -> None:
        if self._tracer is not None:
            self._tracer.let_go()

    def _pass_on(self, uid: OperatorUid, timestamp: int) -> None:
        self._let_go()
        self._tell(uid, timestamp)
        for child in self._vertex.follows[uid]:
            self._flow(child, timestamp)

    def _tell(self, uid: OperatorUid, timestamp: int) -> None:
        self.time = self._passed[uid] = timestamp
        for edge in self._vertex.outputs:
            if edge.node == uid:
                self._outlet.watermark(edge, timestamp)

    def _times(self) -> list[OperatorReport]:
        """How far event time is behind each step that knows of any, unless it is at its end."""
        index = self._env.subtask.index
        stamps = {uid: each.kept() for uid, each in self._operators.items() if isinstance(each, Stamp)}
        passed = dict.fromkeys(stamps, MIN_WATERMARK) | self._passed
        return [
            OperatorReport(uid, index, time=EventTime(index, time, stamps.get(uid, ())))
            for uid, time in passed.items()
            if time < MAX_WATERMARK
        ]

    def _pass_idleness(self, uid: OperatorUid, idle: bool) -> None:
        self._let_go()
        for edge in self._vertex.outputs:
            if edge.node == uid:
                self._outlet.idle(edge, idle)
        for child in self._vertex.follows[uid]:
            if child in self._deferring:
                self._deferring[child].idle(idle)
            elif self._vertex.nodes[child].kind != "stamp":
                self._pass_idleness(child, idle)

    def _run(self, uid: OperatorUid, side: int | None, batch: Batch, rows: list[Row] | None = None) -> None:
        if uid not in self._stages:
            sink = next(sink for sink in self._sinks.values() if sink.uid == uid)
            with refused(self._vertex.nodes[uid], self._env.subtask, batch):
                sink.write(batch)
            return
        loop = self._loop(uid, side, batch.timestamps is not None)
        columns: list[Any] = [batch.values, batch.timestamps, rows]
        if loop.cuts:
            columns = [iter(column) if column is not None else None for column in columns]
        more = True
        while more:
            try:
                results = loop.run(*columns)
            except BaseException as error:
                raise explain(error, loop, batch, self._vertex, self._env.subtask) from error
            for output, (values, times) in zip(loop.outputs, results, strict=True):
                if values:
                    self._take(output, Batch(values, times), batch)
            more = any(cut.moved for cut in loop.cuts)
            self.announce()

    def _take(self, output: int, batch: Batch, came_of: Batch) -> None:
        """Hand on what has passed the chain."""
        if output not in self._sinks:
            self._takers[output](batch)
            return
        with refused(self._vertex.nodes[self._sinks[output].uid], self._env.subtask, came_of):
            self._takers[output](batch)

    def _loop(self, uid: OperatorUid, side: int | None, timed: bool) -> Compiled:
        """The loop to take for the next batch; it checks the results of steps that had none in batches before."""
        compiled = self._compiled.get((uid, side, timed))
        if compiled is None:
            stages = self._stages[uid].walk()
            checks = {each.number: Declared(each.typed) for each in stages if each.typed is not None}
        elif any(check.seen for check in compiled.checks.values()):
            checks = {number: check for number, check in compiled.checks.items() if not check.seen}
        else:
            return compiled
        self._compiled[uid, side, timed] = compiled = self._compile(uid, side, timed, checks)
        return compiled

    def _compile(
        self, uid: OperatorUid, side: int | None, timed: bool, checks: dict[int, Declared]
    ) -> Compiled:
        """The loop that starts with a step, called for input `side`, or behind it."""
        stage, operator = self._stages[uid], self._operators.get(uid)
        call = operator.calls[side] if operator is not None and side is not None else None
        if side is None and (
            stage.sides or (stage.call is not None and stage.call.shape in ("process", "emit"))
        ):
            call = Call("emitted", _nothing)
        where = f"{self._env.subtask} {uid}{f' input {side}' if side is not None else ' timers'}"
        head = dataclasses.replace(stage, call=call)
        return compile_stages(where, head, timed=timed, checks=checks, encoders=self._encoders)

    def _build(self, uid: OperatorUid, *, stateful: bool) -> Stage:
        operator = self._operators.get(uid)
        stateful = stateful or (
            operator is not None and operator.store is not None and not operator.gives_away
        )
        nodes = self._vertex.nodes
        followers = [child for child in self._vertex.follows[uid] if nodes[child].kind != "sink"]
        stages = {child: self._build(child, stateful=stateful) for child in followers}
        self._stages[uid] = stage = Stage(
            uid,
            list(nodes).index(uid),
            operator.calls[0] if operator is not None else None,
            tuple(stage for child, stage in stages.items() if nodes[child].kind != "side"),
            self._outputs[uid],
            tuple(
                (nodes[child].payload, stage)
                for child, stage in stages.items()
                if nodes[child].kind == "side"
            ),
            isolated=stateful or len(self._takers) > 1,
            shape=shaper(nodes[uid].output_type) if nodes[uid].kind != "filter" else None,
            settled=settled(nodes[uid].output_type),
            typed=nodes[uid].output_type if nodes[uid].kind in _TYPED else None,
        )
        return stage

    def _open_outputs(self, uid: OperatorUid) -> tuple[int, ...]:
        first = len(self._takers)
        for edge in self._vertex.outputs:
            if edge.node == uid:
                emit = partial(self._outlet.emit, edge)
                self._takers.append(emit if self._tracer is None else self._tracer.holding(emit, edge.traced))
        nodes = self._vertex.nodes
        sinks = [child for child in self._vertex.follows[uid] if nodes[child].kind == "sink"]
        if nodes[uid].kind == "sink" and uid == self._vertex.head.uid:
            sinks.append(uid)
        for child in sinks:
            sink = SinkOperator(nodes[child], self._env)
            self._sinks[len(self._takers)] = sink
            self._takers.append(sink.write)
        return tuple(range(first, len(self._takers)))


def _nothing(value: Any) -> Any:
    """Stands where nothing is called."""
    return value


def _decline(error: UnavailableError) -> list[OperatorReport]:
    raise error


def _call_all(closers: list[Callable[[], None]]) -> None:
    errors: list[BaseException] = []
    for close in closers:
        try:
            close()
        except BaseException as error:
            errors.append(error)
    if errors:
        raise errors[0]
