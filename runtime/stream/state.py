"""State declarations: a class attribute of a function that becomes the state in `open`.

The same descriptors are underneath, and the name of the attribute is the name of the state. A plain annotation or a
`TypeInformation` says the type; without one the state is untyped.

Each kind takes `ttl`, a length of time or a `StateTtlConfig`, and then expires.

Example:
    >>> from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state
    >>> class Count(KeyedProcessFunction):
    ...     seen = state.Value(int, default=0)
    ...
    ...     def process_element(self, value, ctx):
    ...         self.seen.update(self.seen.value() + 1)
    ...         yield value, self.seen.value()
    >>> env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    >>> words = env.from_collection(["a", "b", "a"])
    >>> sorted(words.key_by(lambda word: word).process(Count()).execute_and_collect())
    [('a', 1), ('a', 2), ('b', 1)]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

from tidegate.backends.keyed.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    OrderedMapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.folding import AggregatingState, ReducingState
from tidegate.backends.keyed.list_state import ListState
from tidegate.backends.keyed.map_state import MapState
from tidegate.backends.keyed.ordered_state import OrderedMapState
from tidegate.backends.keyed.row import ValueState
from tidegate.backends.keyed.ttl import Length, StateTtlConfig
from tidegate.errors import ConfigError
from tidegate.types import TypeInformation, Types

__all__ = [
    "Aggregating",
    "Declared",
    "List",
    "Map",
    "OrderedMap",
    "Reducing",
    "Value",
    "bind_declared",
    "declared_states",
]

T = TypeVar("T")
N = TypeVar("N")
K = TypeVar("K")
V = TypeVar("V")
H = TypeVar("H")


class Declared(ABC, Generic[H]):
    """An attribute of a function class that stands for a state of its operator."""

    _name = "?"

    def __init__(self, ttl: StateTtlConfig | Length | None) -> None:
        self.ttl: StateTtlConfig | None = (
            ttl if ttl is None or isinstance(ttl, StateTtlConfig) else StateTtlConfig.new_builder(ttl).build()
        )
        """Time to live of the state's values; None: they do not expire."""

    @abstractmethod
    def describe(self, name: str) -> StateDescriptor:
        """The descriptor of a state of that name."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any]) -> H: ...

    def __get__(self, instance: object | None, owner: type[Any]) -> Any:
        if instance is None:
            return self
        raise ConfigError(
            f"state {self._name!r} of {owner.__name__} is used before the function is opened; "
            "use it while a record or timer is processed"
        )


class Value(Declared[ValueState[T]]):
    """One value per key; `default` is what it is while nothing is stored."""

    @overload
    def __init__(self, type: type[T], default: T, *, ttl: StateTtlConfig | Length | None = None) -> None: ...

    @overload
    def __init__(
        self: Value[N | None], type: type[N], *, ttl: StateTtlConfig | Length | None = None
    ) -> None: ...

    @overload
    def __init__(
        self: Value[Any],
        type: TypeInformation | None = None,
        default: Any = None,
        *,
        ttl: StateTtlConfig | Length | None = None,
    ) -> None: ...

    def __init__(
        self, type: Any = None, default: Any = None, *, ttl: StateTtlConfig | Length | None = None
    ) -> None:
        super().__init__(ttl)
        self._type = _information(type)
        self._default = default

    def describe(self, name: str) -> StateDescriptor:
        """A `ValueStateDescriptor`."""
        return ValueStateDescriptor(name, self._type, self._default)


class List(Declared[ListState[T]]):
    """A list per key."""

    def __init__(
        self,
        element: type[T] | TypeInformation | None = None,
        *,
        ttl: StateTtlConfig | Length | None = None,
    ) -> None:
        super().__init__(ttl)
        self._element = _information(element)

    def describe(self, name: str) -> StateDescriptor:
        """A `ListStateDescriptor`."""
        return ListStateDescriptor(name, self._element)


class Map(Declared[MapState[K, V]]):
    """A map per key."""

    def __init__(
        self,
        key: type[K] | TypeInformation | None = None,
        value: type[V] | TypeInformation | None = None,
        *,
        ttl: StateTtlConfig | Length | None = None,
    ) -> None:
        super().__init__(ttl)
        self._key = _information(key)
        self._value = _information(value)

    def describe(self, name: str) -> StateDescriptor:
        """A `MapStateDescriptor`."""
        return MapStateDescriptor(name, self._key, self._value)


class OrderedMap(Declared[OrderedMapState[K, V]]):
    """A map per key, in the order of its keys."""

    def __init__(
        self,
        key: type[K] | TypeInformation,
        value: type[V] | TypeInformation | None = None,
        *,
        ttl: StateTtlConfig | Length | None = None,
    ) -> None:
        super().__init__(ttl)
        self._key = _information(key)
        self._value = _information(value)

    def describe(self, name: str) -> StateDescriptor:
        """An `OrderedMapStateDescriptor`."""
        return OrderedMapStateDescriptor(name, self._key, self._value)


class Reducing(Declared[ReducingState[T]]):
    """What all values added to a key come to."""

    def __init__(
        self,
        function: Callable[[T, T], T] | Any,
        type: type[T] | TypeInformation | None = None,
        *,
        ttl: StateTtlConfig | Length | None = None,
    ) -> None:
        super().__init__(ttl)
        self._function = function
        self._type = _information(type)

    def describe(self, name: str) -> StateDescriptor:
        """A `ReducingStateDescriptor`."""
        return ReducingStateDescriptor(name, self._function, self._type)


class Aggregating(Declared[AggregatingState[Any, Any]]):
    """An accumulator per key."""

    def __init__(
        self,
        function: Any,
        accumulator: type[Any] | TypeInformation | None = None,
        *,
        ttl: StateTtlConfig | Length | None = None,
    ) -> None:
        super().__init__(ttl)
        self._function = function
        self._accumulator = _information(accumulator)

    def describe(self, name: str) -> StateDescriptor:
        """An `AggregatingStateDescriptor`."""
        return AggregatingStateDescriptor(name, self._function, self._accumulator)


def bind_declared(function: object, open_state: Callable[[str, StateDescriptor], Any]) -> None:
    """Put the states that a function's class declares into the function; `open_state` is told why it is asked."""
    for name, declared in declared_states(function).items():
        # What stands in the instance is found first, so reading it costs no more than any attribute.
        vars(function)[name] = open_state(f"declares state {name!r}", _described(declared, name))


def declared_states(function: object) -> dict[str, Declared[Any]]:
    """The states that a function's class declares, by name."""
    return {
        name: declared
        for cls in reversed(type(function).__mro__)
        for name, declared in vars(cls).items()
        if isinstance(declared, Declared)
    }


def _described(declared: Declared[Any], name: str) -> StateDescriptor:
    descriptor = declared.describe(name)
    if declared.ttl is not None:
        descriptor.enable_time_to_live(declared.ttl)
    return descriptor


def _information(given: Any) -> TypeInformation | None:
    return given if given is None or isinstance(given, TypeInformation) else Types.of(given)
