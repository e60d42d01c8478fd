"""Window descriptor: the payload of a window step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tidegate.runtime.graph.names import FunctionNames
from tidegate.runtime.operators.window.assigner import WindowAssigner
from tidegate.runtime.operators.window.evictors import Evictor
from tidegate.runtime.operators.window.folding import Folding
from tidegate.runtime.operators.window.output import OutputMode
from tidegate.runtime.operators.window.triggers import Trigger
from tidegate.runtime.stream.functions import Wrapper
from tidegate.runtime.stream.results import iterated
from tidegate.runtime.stream.tags import OutputTag
from tidegate.runtime.stream.windows import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowContext,
    WindowFunction,
)
from tidegate.types import TypeInformation

__all__ = ["Evaluation", "Windowing", "evaluation"]

Evaluation = Callable[[Any, Any, WindowContext, list[Any]], Iterable[Any]]
"""A window function: called with key, window, context and elements."""


@dataclass(frozen=True)
class Windowing(Wrapper):
    """Assigner, trigger, evictor and functions of a window step.

    Without `folding` all records are kept; without `function` the combined value is the result. `lateness` is in
    milliseconds.
    """

    assigner: WindowAssigner
    trigger: Trigger
    folding: Folding | None
    function: Any = None
    evictor: Evictor | None = None
    lateness: int = 0
    late_tag: OutputTag | None = None
    mode: OutputMode = OutputMode.UPDATE
    record_type: TypeInformation | None = None

    @property
    def functions(self) -> tuple[Any, ...]:
        """The combining function and the window function, if any."""
        given = (self.folding.function if self.folding is not None else None, self.function)
        return tuple(function for function in given if function is not None)

    def label(self, names: FunctionNames) -> str:
        """The name of the step in plans: assigner, trigger, function, window function."""
        parts = [_shown(self.assigner), _shown(self.trigger)]
        if self.folding is not None:
            parts.append(names.of(self.folding.function, self.folding.interface))
        passes = self.function is None
        parts.append("PassThroughWindowFunction" if passes else names.of(self.function, "WindowFunction"))
        return f"Window({', '.join(parts)})"


def evaluation(function: Any) -> Evaluation:
    """The call of a window function of any class; without one the elements are the results."""
    call: Callable[..., Iterable[Any] | None]
    match function:
        case None:
            return lambda key, window, context, elements: elements
        case ProcessWindowFunction():
            call = function.process
            return lambda key, window, context, elements: iterated(call(key, context, elements), call)
        case ProcessAllWindowFunction():
            call = function.process
            return lambda key, window, context, elements: iterated(call(context, elements), call)
        case AllWindowFunction():
            call = function.apply
            return lambda key, window, context, elements: iterated(call(window, elements), call)
        case _:
            call = function.apply if isinstance(function, WindowFunction) else function
            return lambda key, window, context, elements: iterated(call(key, window, elements), call)


def _shown(part: WindowAssigner | Trigger) -> str:
    """An assigner or trigger in plans: its class, and its settings if it has any; an offset of 0 is left out."""
    fields = {name: getattr(part, name) for name in getattr(part, "__dataclass_fields__", ())}
    values = [value for name, value in fields.items() if name != "offset" or value]
    shown = ", ".join(_shown(value) if isinstance(value, Trigger) else str(value) for value in values)
    return f"{type(part).__name__}({shown})" if shown else type(part).__name__
