"""Reductions of a keyed stream: each record meets what its key's records came to so far.

A stream shows every step on the way, a batch job what a key came to in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.backends.keyed.store import KeyedStore
from tidegate.elements import MAX_WATERMARK
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.operator import NOTHING, Call, Emitted, Operator
from tidegate.runtime.operators.rows import shaped
from tidegate.runtime.stream.functions import as_callable
from tidegate.types import TypeInformation

__all__ = ["open_reduce"]


def open_reduce(payload: Any, record_type: TypeInformation | None, context: OperatorContext) -> Operator:
    """The operator of `reduce` and of the running aggregations, which keep what they get and emit: records of a type."""
    store = context.keyed_store("reduces")
    combine = shaped(as_callable(payload), record_type)
    if context.env.batch:
        return _Final(combine, store)
    state = store.value_state(ValueStateDescriptor("reduced", record_type))
    call = Call("map", state.reducer(combine), bind=store.binding)
    return Operator((call,), store, gives_away=True)


class _Final(Operator):
    """Records of one key come one after the other, so what they came to needs no state."""

    def __init__(self, combine: Callable[[Any, Any], Any], store: KeyedStore) -> None:
        self._combine = combine
        self._value: Any = None
        self._time: int | None = None
        super().__init__((Call("emit", self._take),), store)

    def event_time(self, watermark: int) -> Emitted:
        """What the key came to, at the time of its last record."""
        if watermark < MAX_WATERMARK or self._value is None:
            return NOTHING
        value, self._value = self._value, None
        return [value], None if self._time is None else [self._time]

    def _take(self, record: Any, timestamp: int | None) -> tuple[()]:
        self._value = record if self._value is None else self._combine(self._value, record)
        self._time = timestamp
        return ()
