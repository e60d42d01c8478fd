"""Factory of state handles: from a state descriptor to the handle a function uses."""

from __future__ import annotations

from typing import Any

from tidegate.backends.keyed.collection import Values
from tidegate.backends.keyed.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    OrderedMapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.expiring import (
    ExpiringListState,
    ExpiringMapState,
    ExpiringOrderedMapState,
    ExpiringValueState,
    TimestampedValues,
)
from tidegate.backends.keyed.folding import AggregatingState, ReducingState
from tidegate.backends.keyed.list_state import ListState
from tidegate.backends.keyed.map_state import MapState
from tidegate.backends.keyed.ordered_state import OrderedMapState
from tidegate.backends.keyed.row import Cursor, RowCodec, ValueState
from tidegate.backends.keyed.sweep import Expiring
from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.keyed.ttl import Lifetime
from tidegate.backends.spi import Materialisation
from tidegate.checks import shorten
from tidegate.errors import ConfigError
from tidegate.serde import codec_for

__all__ = ["open_expiring", "open_state", "unknown"]


def open_state(
    descriptor: StateDescriptor,
    entry: StateEntry,
    cursor: Cursor,
    materialisation: Materialisation,
    rows: RowCodec,
) -> Any:
    """The handle of a state; `entry` locates its values in the rows `cursor` is bound to."""
    codec = codec_for(descriptor.stored_type)
    values = Values(descriptor.name, codec)
    rows.declare(entry.slot, values)
    match descriptor:
        case ListStateDescriptor():
            elements = ListState[Any](values, entry, cursor, materialisation)
            rows.declare_collection(entry.slot, elements.content)
            return elements
        case MapStateDescriptor():
            plain: type[MapState[Any, Any]] = MapState
            kind = OrderedMapState if isinstance(descriptor, OrderedMapStateDescriptor) else plain
            entries = kind(descriptor, values, entry, cursor, materialisation)
            rows.declare_collection(entry.slot, entries.content)
            return entries
        case _:
            return _folded(descriptor, ValueState(values, _default(descriptor), entry.slot, cursor))


def open_expiring(
    descriptor: StateDescriptor,
    entry: StateEntry,
    cursor: Cursor,
    materialisation: Materialisation,
    rows: RowCodec,
    life: Lifetime,
) -> tuple[Any, Expiring]:
    """`open_state` of a state with a time to live; and what removes expired values from any row."""
    shape = life.shape if isinstance(descriptor, ListStateDescriptor | MapStateDescriptor) else tuple
    values = TimestampedValues(descriptor.name, codec_for(descriptor.stored_type), shape)
    rows.declare(entry.slot, values)
    match descriptor:
        case ListStateDescriptor():
            elements = ExpiringListState[Any](values, entry, cursor, materialisation, life)
            rows.declare_collection(entry.slot, elements.content)
            return elements, elements
        case MapStateDescriptor():
            plain: type[ExpiringMapState[Any, Any]] = ExpiringMapState
            kind = ExpiringOrderedMapState if isinstance(descriptor, OrderedMapStateDescriptor) else plain
            entries = kind(descriptor, values, entry, cursor, materialisation, life)
            rows.declare_collection(entry.slot, entries.content)
            return entries, entries
        case _:
            value = ExpiringValueState[Any](values, _default(descriptor), entry.slot, cursor, life)
            return _folded(descriptor, value), value


def _default(descriptor: StateDescriptor) -> Any:
    return descriptor.default if isinstance(descriptor, ValueStateDescriptor) else None


def _folded(descriptor: StateDescriptor, value: ValueState[Any]) -> Any:
    """The handle of a kind that keeps one value per key."""
    match descriptor:
        case ValueStateDescriptor():
            return value
        case ReducingStateDescriptor():
            return ReducingState[Any](descriptor, value)
        case AggregatingStateDescriptor():
            return AggregatingState[Any, Any](descriptor, value)
        case other:
            raise unknown(other)


def unknown(descriptor: object) -> ConfigError:
    """The error for an unsupported state descriptor."""
    return ConfigError(
        f"{type(descriptor).__name__} is not a state descriptor; got {shorten(descriptor)}; expected a Value-, "
        "List-, Map-, OrderedMap-, Reducing- or AggregatingStateDescriptor"
    )
