"""From a step of the program to the operator that runs it, by kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.graph.transformations import Kind
from tidegate.runtime.operators.async_wait import AsyncWait
from tidegate.runtime.operators.broadcast import open_broadcast
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.keyed import open_process
from tidegate.runtime.operators.operator import Call, Operator, Shape
from tidegate.runtime.operators.reduce import open_reduce
from tidegate.runtime.operators.stamp import open_stamp
from tidegate.runtime.operators.window.operator import WindowOperator
from tidegate.runtime.stream.functions import as_callable

__all__ = ["open_operator"]

Opener = Callable[[Any, OperatorContext, bool], Operator | None]


def open_operator(node: StreamNode, context: OperatorContext, *, keyed: bool) -> Operator | None:
    """The operator of a step whose function is open already; None if the step calls nothing.

    `keyed` says whether its input has a key.
    """
    if node.watermarks is not None:
        return open_stamp(node.watermarks, context.env)
    if node.kind == "reduce":
        return open_reduce(node.payload, node.output_type, context)
    opener = _OPENERS.get(node.kind)
    return opener(node.payload, context, keyed) if opener is not None else None


def _function(shape: Shape, *methods: str) -> Opener:
    """A plain call per input: of the callable itself, or of the named methods of a function with two inputs."""

    def opener(payload: Any, context: OperatorContext, keyed: bool) -> Operator:
        functions = [getattr(payload, method) for method in methods] or [as_callable(payload)]
        bind = context.store.cursor if context.store is not None else None
        return Operator(tuple(Call(shape, function, bind=bind) for function in functions), context.store)

    return opener


def _process(payload: Any, context: OperatorContext, keyed: bool) -> Operator:
    on_timer = getattr(payload, "on_timer", None)
    return open_process((payload.process_element,), on_timer, context, keyed=keyed)


def _co_process(payload: Any, context: OperatorContext, keyed: bool) -> Operator:
    handlers = (payload.process_element1, payload.process_element2)
    return open_process(handlers, getattr(payload, "on_timer", None), context, keyed=keyed)


_OPENERS: dict[Kind, Opener] = {
    "map": _function("map"),
    "filter": _function("filter"),
    "flat_map": _function("flat_map"),
    "co_map": _function("map", "map1", "map2"),
    "co_flat_map": _function("flat_map", "flat_map1", "flat_map2"),
    "process": _process,
    "co_process": _co_process,
    "broadcast_process": lambda payload, context, keyed: open_broadcast(payload, context, keyed=keyed),
    "window": lambda payload, context, keyed: WindowOperator(payload, context),
    "async_wait": lambda payload, context, keyed: AsyncWait(payload, context),
    "stamp": lambda payload, context, keyed: open_stamp(payload, context.env),
}
