"""Operators of reduce and running aggregations on a keyed stream: each record is combined with the result of its key.

A streaming job emits every intermediate result, a batch job only the final result of each key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.backends.keyed.row import Cursor, Row
from tidegate.backends.keyed.store import KeyedStore
from tidegate.elements import MAX_WATERMARK
from tidegate.isolation import isolate
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.operator import (
    Call,
    Emitted,
    Operator,
    Piece,
    Shortcut,
    StepInput,
    StepKind,
)
from tidegate.runtime.operators.plain import plain_class, plain_test
from tidegate.runtime.operators.rows import shaped
from tidegate.runtime.stream.aggregations import Aggregation
from tidegate.runtime.stream.functions import as_callable
from tidegate.types import Kind, TypeInformation

if TYPE_CHECKING:
    from tidegate.runtime.graph.stream_graph import StreamNode

__all__ = ["REDUCE"]

_STATE: Final = "reduced"


def _open(node: StreamNode, context: OperatorContext) -> Operator:
    """The operator of `reduce` and of the running aggregations, which keep what they get and emit: records of a type."""
    payload, record_type = node.payload, node.output_type
    asks_for_state = context.store is not None
    store = context.keyed_store("reduces")
    combine = shaped(as_callable(payload), record_type)
    if context.env.batch:
        return _Final(combine, store, store.cursor if asks_for_state else None)
    state = store.value_state(ValueStateDescriptor(_STATE, record_type))
    short = _shortcut(payload, combine, record_type, store)
    call = Call("map", state.reducer(combine), bind=store.cursor, shortcut=short)
    return Operator((call,), store, gives_away=True)


REDUCE: Final = StepKind(
    "reduce",
    _open,
    inputs=(StepInput("required", "insert-only"),),
    gives="insert-only",
    keeps_records=True,
)


def _shortcut(
    payload: Any, combine: Callable[[Any, Any], Any], record_type: TypeInformation | None, store: KeyedStore
) -> Shortcut | None:
    """Lines of the loop for immutable values; all other values are processed by a call."""
    held, test = plain_class(record_type), plain_test(record_type, "total")
    if record_type is None or held is None or test is None:
        return None
    state, slot = store.value_state(ValueStateDescriptor(_STATE, record_type)), store.slots[_STATE]

    def replace(row: Row, total: Any) -> Any:
        store.bind(row.key)
        state.update(total)
        return isolate(total)

    lines = _of_fields(payload, record_type, slot) or (
        f"if type(held) is {held}:",
        "    total = combine(held, v)",
        f"    if {test}:",
        f"        slots[{slot}] = given = total",
        "        if not row.changed: mark(row)",
        "    else: given = replace(row, total)",
    )
    return Shortcut(
        ("slots = row.values", f"held = slots[{slot}]", *lines),
        {"combine": combine, "replace": replace, "mark": store.cursor.mark},
    )


def _of_fields(payload: Any, record_type: TypeInformation, slot: int) -> tuple[str, ...] | None:
    """A running aggregation of one field of tuples, without a call."""
    if not isinstance(payload, Aggregation) or record_type.kind is not Kind.TUPLE:
        return None
    width, place, combined = len(record_type.items), payload.field, payload.of_two("old", "new")
    if combined is None or not isinstance(place, int) or not 0 <= place < width:
        return None
    # The other fields keep the values of the held tuple, so it is unpacked last.
    record, held, result = (
        "".join(f"{name if at == place else f'part{at}'}, " for at in range(width))
        for name in ("new", "old", "total")
    )
    return (
        "if type(v) is type(held) is tuple:",
        "    try:",
        f"        {record}= v",
        f"        {held}= held",
        "    except ValueError: pass",
        "    else:",
        f"        total = {combined}",
        f"        if {plain_test(record_type.items[place], 'total')}:",
        f"            slots[{slot}] = given = ({result})",
        "            if not row.changed: mark(row)",
    )


class _Final(Operator):
    """Batch operator: input is sorted by key, so the result of a key needs no state.

    State of the function itself is bound to the key by `cursor`.
    """

    def __init__(self, combine: Callable[[Any, Any], Any], store: KeyedStore, cursor: Cursor | None) -> None:
        self._combine = combine
        self._value: Any = None
        self._time: int | None = None
        super().__init__((Call("emit", self._take, bind=cursor),), store)

    def event_time(self, watermark: int, piece: Piece) -> Emitted | None:
        """The result of the key, with the time of its last record."""
        if watermark < MAX_WATERMARK or self._value is None:
            return None
        value, self._value = self._value, None
        return [value], None if self._time is None else [self._time]

    def _take(self, record: Any, timestamp: int | None) -> tuple[()]:
        self._value = record if self._value is None else self._combine(self._value, record)
        self._time = timestamp
        return ()
