"""Keyed state, shared by all backends: state kinds, cache, log, timers, snapshots."""

from __future__ import annotations

from tidegate.backends.keyed.descriptors import (
    AggregatingStateDescriptor as AggregatingStateDescriptor,
    ListStateDescriptor as ListStateDescriptor,
    MapStateDescriptor as MapStateDescriptor,
    OrderedMapStateDescriptor as OrderedMapStateDescriptor,
    ReducingStateDescriptor as ReducingStateDescriptor,
    StateDescriptor as StateDescriptor,
    ValueStateDescriptor as ValueStateDescriptor,
)
from tidegate.backends.keyed.folding import (
    AggregatingState as AggregatingState,
    ReducingState as ReducingState,
)
from tidegate.backends.keyed.list_state import ListState as ListState
from tidegate.backends.keyed.map_state import MapState as MapState
from tidegate.backends.keyed.row import ValueState as ValueState
from tidegate.backends.keyed.snapshot import PendingSnapshot as PendingSnapshot
from tidegate.backends.keyed.store import KeyedStore as KeyedStore
from tidegate.backends.keyed.ttl import StateTtlConfig as StateTtlConfig

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "KeyedStore",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "OrderedMapStateDescriptor",
    "PendingSnapshot",
    "ReducingState",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]
