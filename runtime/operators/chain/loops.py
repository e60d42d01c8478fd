"""Data path of a chain: passes batches through the generated loops, and their output to exchanges and sinks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tidegate import faults
from tidegate.arrow_rows import ArrowRows
from tidegate.backends.keyed.journal import TimersDue
from tidegate.backends.keyed.row import Row
from tidegate.backends.keyed.store import KeyedStore
from tidegate.canonical import themselves
from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK, Batch
from tidegate.errors import ConfigError, InternalError
from tidegate.ids import OperatorUid
from tidegate.row import kinds_of, kinds_or_none
from tidegate.runtime.graph.transformations import KeyedForward
from tidegate.runtime.operators.chain.operators import ChainOperators
from tidegate.runtime.operators.codegen import Compiled, Encoder, Stage, compile_stages
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.operators.expression_columns import ExpressionColumns
from tidegate.runtime.operators.failure import explain, refused
from tidegate.runtime.operators.keying import OwnKeys
from tidegate.runtime.operators.operator import (
    BatchCall,
    Bundling,
    Call,
    Emitted,
    Operator,
    Piece,
    Role,
    RowLookup,
)
from tidegate.runtime.operators.rows import Declared, may_be_row, settled, shaper
from tidegate.runtime.operators.tracing import Tracer

if TYPE_CHECKING:
    from tidegate.runtime.graph.job_graph import JobEdge, JobVertex

__all__ = ["ChainLoops", "Outlet"]


Announce: TypeAlias = Callable[[OperatorUid, int | None], None]
"""Called with a step that processed records. If more records follow at once, also with the number of steps that had due
timers before: timers that became due since then fire before these records."""


class Outlet(Protocol):
    """Receives the output of the chain for its exchanges."""

    def emit(self, edge: JobEdge, batch: Batch) -> None:
        """Send the batch to the subtasks behind `edge`."""
        ...

    def watermark(self, edge: JobEdge, timestamp: int) -> None:
        """Send a watermark to all subtasks behind `edge`."""
        ...

    def idle(self, edge: JobEdge, idle: bool) -> None:
        """Send to all subtasks behind `edge` whether this one is idle."""
        ...


class StepTimes(Protocol):
    """Timers that are due in a chain."""

    @property
    def due(self) -> int:
        """The number of steps with due timers."""
        ...

    def settle(self) -> None:
        """Fire all due timers."""
        ...


class ChainLoops:
    """Compiles the loops of a chain and runs them."""

    def __init__(
        self, vertex: JobVertex, env: ChainEnvironment, operators: ChainOperators, outlet: Outlet
    ) -> None:
        self._vertex = vertex
        self._env = env
        self._operators = operators
        self._outlet = outlet
        self._tracer = Tracer(vertex.head.uid) if env.traced else None
        self._takers: list[tuple[BatchCall, OperatorUid | None]] = []
        """The receiver of each output of the loops, and the step that may refuse a record of it."""
        self._encoders: dict[int, Encoder] = {}
        self._stages: dict[OperatorUid, Stage] = {}
        self._columns: dict[OperatorUid, ExpressionColumns] = {}
        self._bundling: dict[OperatorUid, list[tuple[OperatorUid, Bundling]]] = {}
        """A step and the later steps that may hold results back, in order."""
        self._compiled: dict[tuple[OperatorUid, int | None, bool, bool], Compiled] = {}
        self._found: dict[OperatorUid, KeyedStore] = {}
        """The state of keyed steps that are not the first: the loop finds the row of each record."""
        self._time: StepTimes
        self._announce: Announce

    def wire(self, time: StepTimes, announce: Announce) -> None:
        """Connect the steps once their operators are open; `announce` is called after each part of a batch that a step processed."""
        self._time, self._announce = time, announce
        outputs = {uid: self._open_outputs(uid) for uid in self._vertex.nodes}
        self._build(self._vertex.head.uid, outputs, stateful=False)

    def process(self, batch: Batch, side: int = 0, *, at: OperatorUid | None = None) -> None:
        """Pass every record through the whole chain, or from step `at` on; `side` is its input.

        Due timers fire before them.
        """
        self._time.settle()
        head = self._vertex.head.uid if at is None else at
        store, rows = self._store(head), self._rows(head, batch)
        if self._tracer is None:
            self.run(head, side, batch, rows)
        else:
            for place, alone in enumerate(self._tracer.one_by_one(batch.in_rows())):
                self.run(head, side, alone, rows[place : place + 1] if rows is not None else None)
                self._time.settle()
                for touched in {head: store, **self._found}.values():
                    if touched is not None:
                        touched.note(self._tracer.origin)
            self._tracer.let_go()
        if store is not None:
            store.end_batch()
        faults.point("task.after-batch")

    @property
    def by_key(self) -> bool:
        """Whether the first step keeps state per key, so that a batch job sorts its input by key."""
        return self._store(self._vertex.head.uid) is not None

    def end_key(self) -> None:
        """All records of a key have been processed: fire its timers, then delete its state."""
        head = self._vertex.head.uid
        operator = self._operators.get(head)
        assert operator is not None
        assert operator.store is not None
        blamed = self._operators.blame(head, "a timer at the end of its key")
        with operator.store.last_of_key(), blamed:
            for fire in (operator.event_time, operator.processing_time):
                while (emitted := fire(MAX_WATERMARK, Piece())) is not None:
                    self.emitted(head, emitted)
        operator.event_time(MIN_WATERMARK, Piece())

    def emitted(self, uid: OperatorUid, emitted: Emitted) -> int:
        """Pass what a step has emitted on a timer to the steps after it; returns the number of records."""
        values, times = emitted
        if values:
            self.run(uid, None, Batch(values, times))
        return len(values)

    def run(self, uid: OperatorUid, side: int | None, batch: Batch, rows: list[Row] | None = None) -> None:
        """Pass records to a step on its input `side`, or what it has emitted on a timer to the steps after it."""
        if type(batch.values) is ArrowRows and self._in_columns(uid, side, batch):
            self._announce(uid, False)
            return
        kinded = batch.kinds is not None
        loop = self._loop(uid, side, batch.timestamps is not None, kinded)
        columns: list[Any] = [batch.values, batch.timestamps, rows, *([batch.kinds] if kinded else ())]
        if loop.cuts:
            columns = [iter(column) if column is not None else None for column in columns]
        more = True
        while more:
            due = self._time.due
            try:
                results = loop.run(*columns)
            except BaseException as error:
                raise explain(error, loop, batch, self._vertex, self._env.subtask) from error
            for output, (values, times, *kept) in zip(loop.outputs, results, strict=True):
                if values:
                    own = kinds_of(values) if output in loop.of_rows else None
                    kinds = kinds_or_none(kept[0]) if kept else own
                    self._take(output, Batch(values, times, kinds=kinds), batch, encoded=not kinded)
            more = any(cut.moved for cut in loop.cuts)
            self._finish_batch(uid, emitted=side is None)
            self._announce(uid, due if more else None)
        for store in self._found.values():
            store.end_batch(len(batch))

    def let_go(self) -> None:
        """Flush the output that is held while records are traced."""
        if self._tracer is not None:
            self._tracer.let_go()

    def note(self, operator: Operator, service: str, until: int) -> None:
        """Write to the log of an operator's state which timers have changed it."""
        if self._tracer is not None and operator.store is not None:
            operator.store.note(TimersDue(service, until))

    def explain(self, timed: bool = False, side: int = 0, at: OperatorUid | None = None) -> str:
        """The source of the generated loop for an input, of the first step or of a later step that has keys."""
        return self._compile(at or self._vertex.head.uid, side, timed, False, {}).source

    def _store(self, uid: OperatorUid) -> KeyedStore | None:
        operator = self._operators.get(uid)
        return operator.store if operator is not None else None

    def _rows(self, uid: OperatorUid, batch: Batch) -> list[Row] | None:
        """The rows of the keys of a batch, read at once; None if the step does not need them.

        Raises:
            ConfigError: the program says that its records are partitioned by key, and they are not.
        """
        store, by = self._store(uid), self._vertex.keyed.get(uid)
        if store is None or batch.keys is None:
            return None
        try:
            return store.prefetch(batch.keys)
        except InternalError:
            if isinstance(by, KeyedForward):
                own, node = OwnKeys(by, self._env), self._vertex.nodes[uid]
                with refused(node, self._env.subtask, batch, ConfigError):
                    for key, record in zip(batch.keys, batch.values, strict=True):
                        own.check(key, record)
            raise

    def _in_columns(self, uid: OperatorUid, side: int | None, batch: Batch) -> bool:
        """Pass Arrow rows to a step, unless it reads rows; the steps after it get its results one after the other."""
        stage = self._stages[uid]
        call = stage.call if side is not None else None
        if call is None:
            self._deliver(stage, batch, batch)
            return True
        if call.expressions is None:
            return False
        if uid not in self._columns:
            self._columns[uid] = ExpressionColumns(call.expressions)
        computed = self._columns[uid].computed(batch)
        sides = dict(stage.sides)
        for branch, part in computed or ():
            target = stage if branch.tag is None else sides.get(branch.tag)
            if target is not None and len(part):
                self._deliver(target, part, batch)
        return computed is not None

    def _deliver(self, stage: Stage, batch: Batch, came_of: Batch) -> None:
        """Pass the results of a step to its outputs and to the steps after it; as rows if it declares another type for them."""
        declared = self._vertex.nodes[stage.uid].output_type
        if not isinstance(batch.values, ArrowRows) or not batch.values.has_type(declared):
            self.run(stage.uid, None, batch.in_rows())
            return
        for output in stage.outputs:
            own = Batch(batch.values.unshared(), batch.timestamps, kinds=batch.kinds)
            self._take(output, own, came_of, encoded=False)
        for child in stage.children:
            self.run(child.uid, 0, batch)

    def _finish_batch(self, uid: OperatorUid, *, emitted: bool) -> None:
        """Emit results that are held back, before event time advances; a step that has just `emitted` holds none."""
        for behind, operator in self._bundling[uid]:
            if emitted and behind == uid:
                continue
            faults.point("bundle.before-finish")
            with self._operators.blame(behind, "finish_batch"):
                held = operator.finish_batch()
            if held is not None:
                self.emitted(behind, held)

    def _take(self, output: int, batch: Batch, came_of: Batch, *, encoded: bool) -> None:
        call, uid = self._takers[output]
        if type(batch.values) is ArrowRows and call.take_arrow is not None:
            take = call.take_arrow
        else:
            batch = batch.in_rows()
            take = call.take_encoded if encoded and call.take_encoded is not None else call.take
        if uid is None:
            take(batch)
            return
        with refused(self._vertex.nodes[uid], self._env.subtask, came_of):
            take(batch)

    def _loop(self, uid: OperatorUid, side: int | None, timed: bool, kinded: bool) -> Compiled:
        """The loop for the next batch; it checks the results of steps that had none in earlier batches."""
        compiled = self._compiled.get((uid, side, timed, kinded))
        if compiled is None:
            stages = self._stages[uid].walk()
            checks = {each.number: Declared(each.typed) for each in stages if each.typed is not None}
        elif any(check.seen for check in compiled.checks.values()):
            checks = {number: check for number, check in compiled.checks.items() if not check.seen}
        else:
            return compiled
        self._compiled[uid, side, timed, kinded] = compiled = self._compile(uid, side, timed, kinded, checks)
        return compiled

    def _compile(
        self,
        uid: OperatorUid,
        side: int | None,
        timed: bool,
        kinded: bool,
        checks: Mapping[int, Declared],
    ) -> Compiled:
        """The loop that starts with a step, called for input `side`, or right after it."""
        stage, operator = self._stages[uid], self._operators.get(uid)
        call = operator.calls[side] if operator is not None and operator.calls and side is not None else None
        if side is None and (
            stage.sides or (stage.call is not None and stage.call.shape in ("process", "emit"))
        ):
            call = Call("emitted", _as_it_is)
        where = f"{self._env.subtask} {uid}{f' input {side}' if side is not None else ' timers'}"
        inputs = self._vertex.nodes[uid].kind.inputs
        takes = inputs[side].takes if side is not None and inputs else "any"
        head = dataclasses.replace(stage, call=call, takes=takes, lookup=None)
        # Encoders do not know row kinds; for records with kinds the sink encodes batches itself.
        encoders = None if kinded else self._encoders
        return compile_stages(
            where,
            head,
            timed=timed,
            kinded=kinded,
            emitted=side is None,
            checks=checks,
            encoders=encoders,
        )

    def _build(
        self, uid: OperatorUid, outputs: Mapping[OperatorUid, tuple[int, ...]], *, stateful: bool
    ) -> Stage:
        node, operator, nodes = self._vertex.nodes[uid], self._operators.get(uid), self._vertex.nodes
        changeable = stateful or len(self._takers) > 1
        stateful = stateful or (
            operator is not None and operator.store is not None and not operator.gives_away
        )
        built = {child: self._build(child, outputs, stateful=stateful) for child in self._vertex.follows[uid]}
        bundling = [(uid, operator)] if isinstance(operator, Bundling) else []
        self._bundling[uid] = bundling + [each for child in built for each in self._bundling[child]]
        called = {child: stage for child, stage in built.items() if not self._takes_batches(child)}
        sides = [child for child in called if nodes[child].kind.role is Role.SIDE_OUTPUT]
        self._stages[uid] = stage = Stage(
            uid,
            list(nodes).index(uid),
            operator.calls[0] if operator is not None and operator.calls else None,
            tuple(stage for child, stage in called.items() if child not in sides),
            outputs[uid]
            + tuple(output for child in built if child not in called for output in outputs[child]),
            tuple((nodes[child].payload, called[child]) for child in sides),
            isolated=stateful or len(self._takers) > 1,
            shape=shaper(node.output_type) if not node.kind.keeps_records else None,
            settled=settled(node.output_type),
            typed=node.output_type if node.kind.declares_results else None,
            takes=node.kind.inputs[0].takes if node.kind.inputs else "any",
            copies=bool(bundling) and changeable,
            lookup=self._lookup(uid),
            rows=may_be_row(node.output_type),
        )
        return stage

    def _lookup(self, uid: OperatorUid) -> RowLookup | None:
        """How the loop finds the row of a record, for a step that is not the first."""
        by, store = self._vertex.rekeyed.get(uid), self._store(uid)
        if by is None or store is None:
            return None
        self._found[uid] = store
        find = partial(OwnKeys(by, self._env).find, store)
        return RowLookup(by.selector, themselves(by.key_type), store.cached, find)

    def _takes_batches(self, uid: OperatorUid) -> bool:
        operator = self._operators.get(uid)
        return operator is not None and operator.batches is not None

    def _open_outputs(self, uid: OperatorUid) -> tuple[int, ...]:
        """Number the receivers of a step's results: exchanges, and the step itself if it is a sink."""
        first = len(self._takers)
        for edge in self._vertex.outputs:
            if edge.node == uid:
                emit = partial(self._outlet.emit, edge)
                held = emit if self._tracer is None else self._tracer.holding(emit, edge.traced)
                self._takers.append((BatchCall(held, take_arrow=held), None))
        operator = self._operators.get(uid)
        if operator is not None and operator.batches is not None:
            if operator.batches.encode is not None:
                self._encoders[len(self._takers)] = Encoder(uid, operator.batches.encode)
            self._takers.append((operator.batches, uid))
        return tuple(range(first, len(self._takers)))


def _as_it_is(value: Any) -> Any:
    return value
