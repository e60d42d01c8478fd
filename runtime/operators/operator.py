"""What a step of a chain is at work: how the generated loop calls it, and what time makes it do.

A plain function is an operator with one call. Operators with state, timers or two inputs add what time or a
checkpoint asks of them; whatever they emit then goes through the steps behind them like any record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tidegate.backends.keyed.row import Cursor
from tidegate.backends.keyed.store import KeyedStore
from tidegate.elements import Element
from tidegate.runtime.operators.operator_list import OperatorList

__all__ = ["NOTHING", "Call", "Deferring", "Emitted", "Operator", "Shape", "Shortcut"]

Shape = Literal["emitted", "map", "filter", "flat_map", "process", "stamp", "emit"]
"""How a call turns one record into others: as it is but for side outputs, `f(v)` once, kept if true, each of `f(v)`, each of
`f(v, context)` with side outputs among them, as it is with the time `f(v, t)`, or each of `f(v, t)` with a time of its
own and side outputs among them."""

Emitted: TypeAlias = tuple[list[Any], list[int] | None]
"""Values and their times."""

NOTHING: Emitted = ([], None)


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

    The loop pauses behind a record that makes `cut.moved` true. `shortcut` comes first.
    """

    shape: Shape
    function: Callable[..., Any]
    context: Any = None
    bind: Cursor | None = None
    cut: Any = None
    shortcut: Shortcut | None = None


class Operator:
    """One step in one subtask. `calls` has one entry per input; `store` is its keyed state, if it has any.

    `gives_away` says that what it emits is not part of its state, or cannot change.
    """

    def __init__(
        self, calls: tuple[Call, ...], store: KeyedStore | None = None, *, gives_away: bool = False
    ) -> None:
        self.calls = calls
        self.store = store
        self.gives_away = gives_away

    def begin(self, watermark: int) -> None:
        """Event time is `watermark` from the start: what was due by it was emitted before."""

    def event_time(self, watermark: int) -> Emitted:
        """What it emits because event time is now `watermark`."""
        return NOTHING

    def processing_time(self, now_ms: int) -> Emitted:
        """What it emits because the clock shows `now_ms`."""
        return NOTHING

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

    def open(self) -> None:
        """Called once when the whole chain is set up."""

    def close(self) -> None:
        """Called once, also after an error."""
        if self.store is not None:
            self.store.close()


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
