"""Running reductions of a keyed stream: each record meets what its key's records came to so far."""

from __future__ import annotations

from typing import Any

from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.operator import Call, Operator
from tidegate.runtime.stream.functions import as_callable

__all__ = ["open_reduce"]


def open_reduce(payload: Any, context: OperatorContext) -> Operator:
    """The operator of `reduce` and of the running aggregations."""
    store = context.keyed_store("reduces")
    state = store.value_state(ValueStateDescriptor("reduced"))
    combine, value, update = as_callable(payload), state.value, state.update

    def reduce_one(record: Any) -> Any:
        before = value()
        after = record if before is None else combine(before, record)
        update(after)
        return after

    return Operator((Call("map", reduce_one, bind=store.bind),), store)
