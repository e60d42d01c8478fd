"""Steps that call a plain function with each record: map, filter, flat map, of one input or of two."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tidegate.runtime.operators.operator import Call, Operator, Shape, StepInput, StepKind
from tidegate.runtime.stream.functions import as_callable

if TYPE_CHECKING:
    from tidegate.runtime.graph.stream_graph import StreamNode
    from tidegate.runtime.operators.context import OperatorContext

__all__ = ["CO_FLAT_MAP", "CO_MAP", "FILTER", "FLAT_MAP", "MAP"]


def _open(shape: Shape, methods: tuple[str, ...], node: StreamNode, context: OperatorContext) -> Operator:
    """A call per input: of the callable itself, or of the named methods of a function with two inputs."""
    functions = [getattr(node.payload, method) for method in methods] or [as_callable(node.payload)]
    bind = context.store.cursor if context.store is not None else None
    return Operator(tuple(Call(shape, function, bind=bind) for function in functions), context.store)


_TWO: Final = (StepInput(), StepInput())

MAP: Final = StepKind("map", partial(_open, "map", ()), declares_results=True)
FILTER: Final = StepKind(
    "filter", partial(_open, "filter", ()), gives="input", keeps_records=True, nests=True
)
FLAT_MAP: Final = StepKind("flat_map", partial(_open, "flat_map", ()), declares_results=True, nests=True)
CO_MAP: Final = StepKind(
    "co_map", partial(_open, "map", ("map1", "map2")), title="Co-Map", inputs=_TWO, declares_results=True
)
CO_FLAT_MAP: Final = StepKind(
    "co_flat_map",
    partial(_open, "flat_map", ("flat_map1", "flat_map2")),
    title="Co-Flat Map",
    inputs=_TWO,
    declares_results=True,
    nests=True,
)
