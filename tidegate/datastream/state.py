"""State of functions under the names of `pyflink.datastream.state`, and its declaration as attributes.

`ValueState` is what a function holds while it runs; `Value` is what its class says:

    >>> from tidegate.datastream import KeyedProcessFunction, state
    >>> class Count(KeyedProcessFunction):
    ...     seen = state.Value(int, default=0)
    ...     last = state.Map(str, float)
    ...
    ...     def process_element(self, value, ctx):
    ...         self.seen.update(self.seen.value() + 1)
"""

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
from tidegate.backends.keyed.ordered_state import OrderedMapState as OrderedMapState
from tidegate.backends.keyed.row import ValueState as ValueState
from tidegate.backends.keyed.ttl import StateTtlConfig as StateTtlConfig
from tidegate.runtime.operators.operator_state import (
    BroadcastState as BroadcastState,
    ReadOnlyBroadcastState as ReadOnlyBroadcastState,
)
from tidegate.runtime.stream.checkpointed import OperatorStateStore as OperatorStateStore
from tidegate.runtime.stream.state import (
    Aggregating as Aggregating,
    List as List,
    Map as Map,
    OrderedMap as OrderedMap,
    Reducing as Reducing,
    Value as Value,
)

__all__ = [
    "Aggregating",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "BroadcastState",
    "List",
    "ListState",
    "ListStateDescriptor",
    "Map",
    "MapState",
    "MapStateDescriptor",
    "OperatorStateStore",
    "OrderedMap",
    "OrderedMapState",
    "OrderedMapStateDescriptor",
    "ReadOnlyBroadcastState",
    "Reducing",
    "ReducingState",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "StateTtlConfig",
    "Value",
    "ValueState",
    "ValueStateDescriptor",
]
