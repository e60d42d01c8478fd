"""Keyed state, written once for every backend: kinds, cache, log, timers, snapshots."""

from __future__ import annotations

from tidegate.backends.keyed.descriptors import (
    StateDescriptor as StateDescriptor,
    ValueStateDescriptor as ValueStateDescriptor,
)
from tidegate.backends.keyed.row import ValueState as ValueState
from tidegate.backends.keyed.snapshot import PendingSnapshot as PendingSnapshot
from tidegate.backends.keyed.store import KeyedStore as KeyedStore

__all__ = ["KeyedStore", "PendingSnapshot", "StateDescriptor", "ValueState", "ValueStateDescriptor"]
