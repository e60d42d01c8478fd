"""The kinds of keyed state: from what a program declares to the handle its functions use."""

from __future__ import annotations

from typing import Any

from tidegate.backends.keyed.collection import Values
from tidegate.backends.keyed.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.folding import AggregatingState, ReducingState
from tidegate.backends.keyed.list_state import ListState
from tidegate.backends.keyed.map_state import MapState
from tidegate.backends.keyed.row import Cursor, RowCodec, ValueState
from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.spi import Materialisation
from tidegate.errors import InternalError
from tidegate.serde import codec_for

__all__ = ["open_state"]


def open_state(
    descriptor: StateDescriptor,
    entry: StateEntry,
    cursor: Cursor,
    materialisation: Materialisation,
    rows: RowCodec,
) -> Any:
    """The handle of a state whose values stand where `entry` says, in the rows `cursor` is bound to."""
    codec = codec_for(descriptor.stored_type)
    values = Values(descriptor.name, codec)
    rows.declare(entry.slot, descriptor.name, codec)
    match descriptor:
        case ValueStateDescriptor():
            return ValueState[Any](values, descriptor.default, entry.slot, cursor)
        case ReducingStateDescriptor():
            return ReducingState[Any](descriptor, ValueState(values, None, entry.slot, cursor))
        case AggregatingStateDescriptor():
            return AggregatingState[Any, Any](descriptor, ValueState(values, None, entry.slot, cursor))
        case ListStateDescriptor():
            elements = ListState[Any](values, entry, cursor, materialisation)
            rows.declare_collection(entry.slot, elements.content)
            return elements
        case MapStateDescriptor():
            entries = MapState[Any, Any](descriptor, values, entry, cursor, materialisation)
            rows.declare_collection(entry.slot, entries.content)
            return entries
        case other:
            raise InternalError(f"no kind of state is known for {other!r}")
