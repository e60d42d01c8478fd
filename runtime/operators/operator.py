"""Runtime operator interface: `StepKind` describes a kind of step, `Operator` runs a step in one subtask.

A `StepKind` holds what the planner has to know and opens the `Operator`. A plain function is an operator with one
call. Operators with state, timers or two inputs also implement methods for watermarks, the clock and checkpoints; what
they emit there passes through the steps after them like any record. A sink gets batches instead of records.

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
    """The role of a step in the plan."""

    OPERATOR = auto()
    """Runs a function."""
    SOURCE = auto()
    SINK = auto()
    SIDE_OUTPUT = auto()
    """A side output: part of the step before it, which emits the records with its tag."""
    UNION = auto()
    """Not a step that runs: the steps after it have all its inputs."""
    ITERATION = auto()
    """The head of an iteration."""
    FEEDBACK = auto()
    """The feedback edge of an iteration."""


@dataclass(frozen=True, slots=True)
class StepInput:
    """One input of a step."""

    keyed: Literal["optional", "required", "none"] = "optional"
    """Whether its records are partitioned by key."""
    takes: RowKinds = "rows"


Opener: TypeAlias = "Callable[[StreamNode, OperatorContext], Operator | None]"
"""Opens the operator of a step in one subtask; its function is already open. None if nothing is called per record."""


def _nothing_runs(node: StreamNode, context: OperatorContext) -> None:
    """Opens no operator: for steps that only route records."""


@dataclass(frozen=True, slots=True)
class StepKind:
    """Describes all steps that run the same operator; a constant in the operator's module.

    `name` is the default name of steps, and so part of automatic uids and of checkpoints: it never changes.
    """

    name: str
    open: Opener = field(default=_nothing_runs, compare=False)
    role: Role = Role.OPERATOR
    title: str = ""
    """The name of unnamed steps in plans; the capitalized `name` if empty."""
    inputs: tuple[StepInput, ...] = (StepInput(),)
    gives: Literal["any", "input", "insert-only"] = "any"
    """Which row kinds it emits: those of the rows that it creates, those of its input, or insertions only."""
    side_outputs: bool = False
    """Whether its results may carry an `OutputTag`."""
    declares_results: bool = False
    """Whether its function declares the type of its results; the first of them are then checked."""
    keeps_records: bool = False
    """Whether results already have their declared shape: it emits its input, or converts its results itself."""
    may_await: bool = False
    """Whether its function may be `async def`."""
    nests: bool = False
    """Whether it is a loop or a condition inside the generated loop; Python nests 20 of them."""
    landmark: bool = False
    """Whether its neighbours are identified by their position next to it when a checkpoint is matched to a program."""
    stamps: bool = False
    """Whether it creates watermarks, and drops those of the steps before it."""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name.replace("_", " ").title())

    def __str__(self) -> str:
        return self.name


Shape = Literal["emitted", "map", "filter", "flat_map", "process", "stamp", "emit", "expressions"]
"""The results of a call for a record `v` with time `t`, in the order of the shapes: `v` itself, apart from side outputs; `f(v)`;
`v` if `f(v)` is true; each of `f(v)`; each of `f(v, context)`, with side outputs among them; `v` with the time `f(v, t)`;
each of `f(v, t)` with its own time, with side outputs among them; the results of expressions."""

Emitted: TypeAlias = tuple[list[Any], list[int] | None]
"""Values and their timestamps."""


class Piece:
    """A limit for work between two checks for barriers and for room at receivers: a number of records and a deadline.

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
        """Whether this number of emitted records or the deadline is reached."""
        return records >= self.limit or self._monotonic() >= self._ends


@dataclass(frozen=True, slots=True)
class Shortcut:
    """Lines of the generated loop that process most records without a call.

    Their variables are the record `v`, the row of its key `row`, its time `t`, and `names`. Lines of an `emit` are used only
    if records have times, and end with `continue` if the record is done; lines of a `map` set `given` to the result if
    they can compute it.
    """

    lines: tuple[str, ...]
    names: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the loop; `context.stamp` is set before each `process`, and the row of its key is bound to `bind`.

    The loop pauses after a record that makes `cut.moved` true. `shortcut` runs first. An `emit` that `takes_kind` is
    called as `f(v, t, kind)` if records have kinds; other calls get rows with the kind.
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
    """How the loop finds the row of a record's key, for a step that is not the first of its chain.

    `cached` returns rows in memory by the key that `select` returns, if the key has a `plain` type; otherwise `find` is
    called with the key and the record.
    """

    select: Callable[[Any], Any]
    plain: frozenset[type[Any]]
    cached: Callable[[Any], Row | None]
    find: Callable[[Any, Any], Row]


@dataclass(frozen=True, slots=True)
class BatchCall:
    """Receives all records of a batch at once, after the loop.

    If there is `encode`, records without kinds are encoded in the loop, one by one, for `take_encoded`. Arrow rows are passed to
    `take_arrow`, or as rows to `take` if there is none.
    """

    take: Callable[[Batch], None]
    encode: Callable[[Any], Any] | None = None
    take_encoded: Callable[[Batch], None] | None = None
    take_arrow: Callable[[Batch], None] | None = None


class Operator:
    """One step in one subtask. `calls` has one entry per input; `store` is its keyed state, if it has any.

    `gives_away` says that its results are not part of its state, or immutable. With `batches` it receives batches
    instead of calls, and no step follows it.
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
        """Start with a restored watermark: timers due by it fired before the checkpoint."""

    def event_time(self, watermark: int, piece: Piece) -> Emitted | None:
        """Some of the results due by `watermark`; called again until it returns None.

        A barrier may pass between two calls, so state must hold what is not emitted yet. No record comes before the last call.
        """
        return None

    def processing_time(self, now_ms: int, piece: Piece) -> Emitted | None:
        """The same for processing time `now_ms`."""
        return None

    def next_processing_time(self) -> int | None:
        """When `processing_time` has to be called next; None if never."""
        return None

    def forwarded(self, watermark: int) -> int | None:
        """The watermark to pass on when `watermark` came in; None holds it back."""
        return watermark

    def own_watermark(self) -> int | None:
        """A new watermark created from the records seen, returned once; called after every batch and where a batch is cut."""
        return None

    def own_idleness(self) -> bool | None:
        """Its new idleness, returned once when it changes; called as for watermarks."""
        return None

    def snapshot_lists(self) -> tuple[OperatorList, ...]:
        """Its operator state at a barrier: all its lists, including empty ones."""
        return ()

    def prepare(self, checkpoint: CheckpointId, confirmed: CheckpointId | None) -> OperatorReport | None:
        """Prepare the transaction of the epoch: make its writes durable but invisible, and return them; `confirmed` is the newest
        decided checkpoint.

        Raises:
            UnavailableError: this failed; the checkpoint is declined.
        """
        return None

    def spare_ms(self) -> float:
        """The time until its prepared transactions expire.

        Raises:
            UnavailableError: some of it could expire before its commit.
        """
        return math.inf

    def open(self) -> None:
        """Called once when the whole chain is open."""

    def close(self) -> None:
        """Called once, also after an error."""
        if self.store is not None:
            self.store.close()


class Bundling(Operator, ABC):
    """An operator whose calls may hold results back until the batch is finished, such as sums per batch.

    A batch is what the step gets between two moments at which a watermark, a barrier or a timer may come: nothing is held
    back across them. A record that its calls hold does not change, even if a function before it changes its own.

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
        """Return all results that were held back; they follow the results of the calls. None if there are none.

        Called by the subtask's thread after every batch that may have reached the step, even if none of its records
        did. An exception fails the job. After a restore the records since the checkpoint come again, in other batches.
        """


class Deferring(Operator, ABC):
    """An asynchronous operator: results arrive after the call; it calls the environment's `wake` when there are some."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether it can accept another batch; called before each."""

    @abstractmethod
    def empty(self) -> bool:
        """Whether the results of all its input were emitted."""

    def settled(self) -> bool:
        """Whether a snapshot can be taken. Until then a barrier waits, and no input is accepted."""
        return True

    @abstractmethod
    def idle(self, idle: bool) -> None:
        """The idleness of its input has changed; to be passed on after all earlier input."""

    @abstractmethod
    def arrivals(self) -> Iterable[Element]:
        """The batches, watermarks and changes of idleness to pass on now, in order; called when the receivers have room."""
