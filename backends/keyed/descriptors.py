"""State descriptors under PyFlink's names: the name, types and functions of a state.

Example:
    >>> ValueStateDescriptor("count", default=0).get_name()
    'count'
    >>> ReducingStateDescriptor("largest", max).get_reduce_function()(3, 5)
    5
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from tidegate.backends.keyed.ttl import StateTtlConfig
from tidegate.errors import ConfigError
from tidegate.ordered import KeyOrder
from tidegate.types import TypeInformation

__all__ = [
    "Aggregate",
    "AggregatingStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "OrderedMapStateDescriptor",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "ValueStateDescriptor",
]


@runtime_checkable
class Aggregate(Protocol):
    """What an aggregating state needs of an `AggregateFunction`."""

    def create_accumulator(self) -> Any:
        """The accumulator of no values."""
        ...

    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with one value more."""
        ...

    def get_result(self, accumulator: Any) -> Any:
        """What the values in an accumulator come to."""
        ...


@dataclass(frozen=True, slots=True)
class StateDescriptor(ABC):
    """Names a state within its operator; the name finds it again after a restore.

    A type that is None means untyped: any value that the self-describing codec carries.
    """

    name: str
    ttl_config: StateTtlConfig | None = field(default=None, init=False)
    """How long what the state holds lives; None: until it is removed."""
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        given: object = self.name
        if not isinstance(given, str) or not given:
            raise ConfigError(f"a state needs a name; got {self.name!r}; expected a non-empty string")

    @property
    @abstractmethod
    def stored_type(self) -> TypeInformation | None:
        """The type of one stored value: of an element, of a map's value, of an accumulator."""

    def get_name(self) -> str:
        """The name."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Enable time to live; must be called before the state is requested.

        Raises:
            ConfigError: it is no `StateTtlConfig`.
        """
        given: object = ttl_config
        if not isinstance(given, StateTtlConfig):
            raise ConfigError(f"state {self.name!r}: time to live is {given!r}; expected a StateTtlConfig")
        object.__setattr__(self, "ttl_config", ttl_config if ttl_config.is_enabled() else None)


@dataclass(frozen=True, slots=True)
class ValueStateDescriptor(StateDescriptor):
    """One value per key; `default` is what `value()` answers while there is none.

    A mutable default is copied for each key and stored with the first read, so changing it in place counts.
    """

    kind = "value"

    value_type_info: TypeInformation | None = None
    default: Any = None

    @property
    def stored_type(self) -> TypeInformation | None:
        """The type of the value."""
        return self.value_type_info


@dataclass(frozen=True, slots=True)
class ListStateDescriptor(StateDescriptor):
    """A list per key; an append does not rewrite the list."""

    kind = "list"

    elem_type_info: TypeInformation | None = None

    @property
    def stored_type(self) -> TypeInformation | None:
        """The type of an element."""
        return self.elem_type_info


@dataclass(frozen=True, slots=True)
class MapStateDescriptor(StateDescriptor):
    """A map per key, whose entries are read and written separately."""

    kind = "map"

    key_type_info: TypeInformation | None = None
    value_type_info: TypeInformation | None = None

    @property
    def stored_type(self) -> TypeInformation | None:
        """The type of a map's value."""
        return self.value_type_info


@dataclass(frozen=True, slots=True)
class OrderedMapStateDescriptor(MapStateDescriptor):
    """A map per key, sorted by map key; the key type is declared and has an order.

    Example:
        >>> from tidegate.types import Types
        >>> OrderedMapStateDescriptor("by time", Types.LONG(), Types.STRING()).kind
        'ordered_map'
    """

    kind = "ordered_map"

    def __post_init__(self) -> None:
        StateDescriptor.__post_init__(self)
        try:
            KeyOrder(self.key_type_info)
        except ConfigError as error:
            raise ConfigError(f"state {self.name!r} is an ordered map; {error}") from None


@dataclass(frozen=True, slots=True)
class ReducingStateDescriptor(StateDescriptor):
    """One value per key: what all added values come to by `reduce_function`, a `ReduceFunction` or a callable."""

    kind = "reducing"

    reduce_function: Any = field(compare=False)
    type_info: TypeInformation | None = None

    def __post_init__(self) -> None:
        StateDescriptor.__post_init__(self)
        if not callable(self.get_reduce_function()):
            given = type(self.reduce_function).__name__
            raise ConfigError(
                f"state {self.name!r} needs a ReduceFunction or a function of two values; got {given}"
            )

    @property
    def stored_type(self) -> TypeInformation | None:
        """The type of the values and of their reduction."""
        return self.type_info

    def get_reduce_function(self) -> Callable[[Any, Any], Any]:
        """What two values come to."""
        function: Callable[[Any, Any], Any] = getattr(self.reduce_function, "reduce", self.reduce_function)
        return function


@dataclass(frozen=True, slots=True)
class AggregatingStateDescriptor(StateDescriptor):
    """One accumulator per key, of the type `state_type_info`, filled and read by an `AggregateFunction`."""

    kind = "aggregating"

    agg_function: Aggregate = field(compare=False)
    state_type_info: TypeInformation | None = None

    def __post_init__(self) -> None:
        StateDescriptor.__post_init__(self)
        if not isinstance(self.agg_function, Aggregate):
            given = type(self.agg_function).__name__
            raise ConfigError(f"state {self.name!r} needs an AggregateFunction; got {given}")

    @property
    def stored_type(self) -> TypeInformation | None:
        """The type of the accumulator."""
        return self.state_type_info

    def get_agg_function(self) -> Aggregate:
        """How values are aggregated."""
        return self.agg_function
