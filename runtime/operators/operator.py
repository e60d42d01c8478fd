"""Runtime operator interface: how a kind of step is described, and what runs for a step in one subtask.

A `StepKind` says what the planner has to know and opens the `Operator`. A plain function is an operator with one
call. Operators with state, timers or two inputs add what time or a checkpoint asks of them; whatever they emit then
goes through the steps behind them like any record. A sink takes batches instead of records.

Example:
    >>> def open_double(node, context):
    ...     return Operator((Call("map", lambda value: 2 * value),))
    >>> DOUBLE = StepKind("double", open_double)
    >>> DOUBLE.title
    'Double'
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tidegate.changelog import RowKinds
from tidegate.elements import Batch, Element
from tidegate.ids import CheckpointId
from tidegate.runtime.operators.operator_list import OperatorList

if TYPE_CHECKING:
    from tidegate.backends.keyed.row import Cursor, Row
    from tidegate.backends.keyed.store import KeyedStore
    from tidegate.runtime.graph.stream_graph import StreamNode
    from tidegate.runtime.operators.context import OperatorContext
    from tidegate.runtime.operators.environment import OperatorReport
    from tidegate.runtime.operators.expressions import Expressions

__all__ = [
    "BatchCall",
    "Bundling",
    "Call",
    "Deferring",
    "Emitted",
    "Operator",
    "Piece",
    "Role",
    "RowLookup",
    "Shape",
    "Shortcut",
    "StepInput",
    "StepKind",
]


class Role(Enum):
    """What a step is to the planner."""

    OPERATOR = auto()
    """Runs a function."""
    SOURCE = auto()
    SINK = auto()
    SIDE_OUTPUT = auto()
    """Part of the step in front of it, which emits what carries its tag."""
    UNION = auto()
    """No step of its own: what follows has all its inputs."""
    ITERATION = auto()
    """Where an iteration begins."""
    FEEDBACK = auto()
    """Leads back to where an iteration begins."""


@dataclass(frozen=True, slots=True)
class StepInput:
    """One input of a step."""

    keyed: Literal["optional", "required", "none"] = "optional"
    """Whether its records are partitioned by key."""
    takes: RowKinds = "rows"


Opener: TypeAlias = "Callable[[StreamNode, OperatorContext], Operator | None]"
"""Opens the operator of a step in one subtask; its function is open already. None if nothing is called per record."""


def _nothing_runs(node: StreamNode, context: OperatorContext) -> None:
    """What a step opens that only says how records go."""


@dataclass(frozen=True, slots=True)
class StepKind:
    """What is common to all steps that run the same operator; a constant in the operator's module.

    `name` is the default name of steps, and so part of automatic uids and of checkpoints: it never changes.
    """

    name: str
    open: Opener = field(default=_nothing_runs, compare=False)
    role: Role = Role.OPERATOR
    title: str = ""
    """What plans call a step without a name; the capitalized name if empty."""
    inputs: tuple[StepInput, ...] = (StepInput(),)
    gives: Literal["any", "input", "insert-only"] = "any"
    """Which changes it emits: those that rows it makes have, those that it takes, or insertions only."""
    side_outputs: bool = False
    """Whether its results may carry an `OutputTag`."""
    declares_results: bool = False
    """Whether its function says of which type its results are, so that the first of them are checked."""
    keeps_records: bool = False
    """Whether results have their declared shape already: it emits what came in, or has shaped what it made of it."""
    may_await: bool = False
    """Whether its function may be `async def`."""
    nests: bool = False
    """Whether it is a loop or a condition inside the generated loop; Python nests 20 of them."""
    landmark: bool = False
    """Whether other steps are recognised by standing next to it, when a checkpoint is compared with a program."""
    stamps: bool = False
    """Whether it makes event time of its own, and ends that of the steps before it."""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name.replace("_", " ").title())

    def __str__(self) -> str:
        return self.name


Shape = Literal["emitted", "map", "filter", "flat_map", "process", "stamp", "emit", "expressions"]
"""How a call turns one record into others: as it is but for side outputs, `f(v)` once, kept if true, each of `f(v)`, each of
`f(v, context)` with side outputs among them, as it is with the time `f(v, t)`, each of `f(v, t)` with a time of its
own and side outputs among them, or what expressions compute."""

Emitted: TypeAlias = tuple[list[Any], list[int] | None]
"""Values and their times."""


class Piece:
    """How much an operator does before it lets the chain see to barriers and receivers: in records, and until when.

    Example:
        >>> piece = Piece(16, ends=10.0, monotonic=lambda: 9.0)
        >>> piece.full(15), piece.full(16)
        (False, True)
    """

    __slots__ = ("_ends", "_monotonic", "limit")

    def __init__(
        self, limit: int = 1_024, ends: float = math.inf, monotonic: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.limit = limit
        self._ends = ends
        self._monotonic = monotonic

    def full(self, records: int) -> bool:
        """Whether so many emitted records, or the time they took, are enough."""
        return records >= self.limit or self._monotonic() >= self._ends


@dataclass(frozen=True, slots=True)
class Shortcut:
    """Lines of the loop that deal with most records, so that they need no call.

    They see the record as `v`, the row of its key as `row`, its time as `t`, and `names`. Those of an `emit` stand only where records
    have times, and end a record that is done by `continue`; those of a `map` set `given` to what it gives if they
    can tell.
    """

    lines: tuple[str, ...]
    names: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the loop; `context.stamp` is set before each `process`, and the row of its key is bound to `bind`.

    The loop pauses behind a record that makes `cut.moved` true. `shortcut` comes first. An `emit` that `takes_kind` is
    called as `f(v, t, kind)` where records have kinds; others get rows of that kind.
    """

    shape: Shape
    function: Callable[..., Any] = callable
    context: Any = None
    bind: Cursor | None = None
    cut: Any = None
    shortcut: Shortcut | None = None
    expressions: Expressions | None = None
    takes_kind: bool = False


@dataclass(frozen=True, slots=True)
class RowLookup:
    """How the loop finds the row of a record's key for a step behind the first.

    `cached` knows rows that are in memory by what `select` gives if that is of a `plain` type; `find` is called with that
    and the record for all others.
    """

    select: Callable[[Any], Any]
    plain: frozenset[type[Any]]
    cached: Callable[[Any], Row | None]
    find: Callable[[Any, Any], Row]


@dataclass(frozen=True, slots=True)
class BatchCall:
    """What takes all records of a batch at once, behind the loop.

    If there is `encode`, records without kinds are encoded in the loop, one by one, for `take_encoded`. Arrow rows come to
    `take_arrow`, or as rows to `take` if there is none.
    """

    take: Callable[[Batch], None]
    encode: Callable[[Any], Any] | None = None
    take_encoded: Callable[[Batch], None] | None = None
    take_arrow: Callable[[Batch], None] | None = None


class Operator:
    """One step in one subtask. `calls` has one entry per input; `store` is its keyed state, if it has any.

    `gives_away` says that what it emits is not part of its state, or cannot change. With `batches` it takes batches
    instead of being called, and nothing follows it.
    """

    def __init__(
        self,
        calls: tuple[Call, ...],
        store: KeyedStore | None = None,
        *,
        gives_away: bool = False,
        batches: BatchCall | None = None,
    ) -> None:
        self.calls = calls
        self.store = store
        self.gives_away = gives_away
        self.batches = batches

    def begin(self, watermark: int) -> None:
        """Event time is `watermark` from the start: what was due by it was emitted before."""

    def event_time(self, watermark: int, piece: Piece) -> Emitted | None:
        """Some of what it emits because event time is now `watermark`; called again until that is None.

        Barriers pass between two calls, so state holds what is still to come. No records come before the last one.
        """
        return None

    def processing_time(self, now_ms: int, piece: Piece) -> Emitted | None:
        """The same for a clock that shows `now_ms`."""
        return None

    def next_processing_time(self) -> int | None:
        """When `processing_time` is worth calling."""
        return None

    def forwarded(self, watermark: int) -> int | None:
        """The watermark that goes on when `watermark` came in; None holds it back."""
        return watermark

    def own_watermark(self) -> int | None:
        """A new watermark made from the records seen, once; asked after every batch and where a batch is cut."""
        return None

    def own_idleness(self) -> bool | None:
        """Whether nothing is to be expected from it for now, once when that changes; asked as for watermarks."""
        return None

    def snapshot_lists(self) -> tuple[OperatorList, ...]:
        """Its operator state at a barrier: every list it has, also an empty one."""
        return ()

    def prepare(self, checkpoint: CheckpointId, confirmed: CheckpointId | None) -> OperatorReport | None:
        """Make what it has written outside durable but invisible, and report it; `confirmed` is the newest decided checkpoint.

        Raises:
            UnavailableError: it could not; the checkpoint is declined.
        """
        return None

    def spare_ms(self) -> float:
        """How long the decision on what it has prepared can wait.

        Raises:
            UnavailableError: some of it could expire before its commit.
        """
        return math.inf

    def open(self) -> None:
        """Called once when the whole chain is set up."""

    def close(self) -> None:
        """Called once, also after an error."""
        if self.store is not None:
            self.store.close()


class Bundling(Operator, ABC):
    """An operator whose calls may hold results back until the batch is finished, such as sums of what the batch holds.

    A batch is what the step is given between two moments at which event time, a barrier or the clock may come: nothing
    is held back across them. What its calls hold of a record stays as it is, also if a function in front changes it.

    Example:
        >>> class Last(Bundling):
        ...     def __init__(self):
        ...         super().__init__((Call("flat_map", self._hold),))
        ...         self._held = []
        ...
        ...     def _hold(self, value):
        ...         self._held = [value]
        ...
        ...     def finish_batch(self):
        ...         held, self._held = self._held, []
        ...         return held, None
    """

    @abstractmethod
    def finish_batch(self) -> Emitted | None:
        """Emit all that was held back, behind what the calls of the batch emitted; None if that is nothing.

        Called by the subtask's thread behind every batch that may have reached the step, also if none of its records
        did. What it raises fails the job. After a restore the records since the checkpoint come again, in other batches.
        """


class Deferring(Operator, ABC):
    """An operator whose results come later than its calls; the environment's `wake` tells that there are some."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether it can take another batch; asked before each."""

    @abstractmethod
    def empty(self) -> bool:
        """Whether nothing of what it took is still to come out."""

    def settled(self) -> bool:
        """Whether a snapshot would hold all that it has begun; a barrier waits for it, and no input is taken meanwhile."""
        return True

    @abstractmethod
    def idle(self, idle: bool) -> None:
        """Whether its input is idle has changed; to be passed on behind what came before."""

    @abstractmethod
    def arrivals(self) -> Iterable[Element]:
        """The batches, watermarks and idleness that may go on by now, in order; called when the receivers can take them."""
