"""Operator state: lists and maps of one subtask, without a key.

It lives in memory and is encoded item by item, so that a restore can redistribute the items of all subtasks:
in equal shares, all to each (union), or one subtask's whole map to each (broadcast).

Example:
    >>> states = OperatorStates(RestoredOperator(), subtask=0)
    >>> states.get_list_state(ListStateDescriptor("buffered")).add("a")
    >>> [(held.name, held.dealt, len(held.items)) for held in states.snapshot()]
    [('state:buffered', 'split', 1)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

import msgspec

from tidegate.backends.keyed.collection import Values
from tidegate.backends.keyed.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from tidegate.backends.keyed.migration import conversion
from tidegate.backends.keyed.table import entry_of
from tidegate.errors import ConfigError
from tidegate.isolation import isolate
from tidegate.keys import canonical, key_bytes, key_from_bytes
from tidegate.runtime.operators.environment import RestoredOperator
from tidegate.runtime.operators.operator_list import DECLARED, Dealt, OperatorList
from tidegate.serde import codec_for

__all__ = ["BroadcastState", "OperatorListState", "OperatorStates", "ReadOnlyBroadcastState"]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class OperatorListState(Generic[T]):
    """A list of one subtask, of items that do not depend on each other: a restore may move them to other subtasks."""

    def __init__(self, values: Values, items: Iterable[bytes]) -> None:
        self._values = values
        self._items: list[Any] = [values.decode(item) for item in items]

    def get(self) -> list[T]:
        """All items."""
        return list(self._items)

    def add(self, value: T) -> None:
        """Append an item.

        Raises:
            RecordError: the state's codec cannot restore the same value.
        """
        self._items.append(self._values.accept(value, None))

    def add_all(self, values: Iterable[T]) -> None:
        """Append items; raises as `add` does."""
        for value in values:
            self.add(value)

    def update(self, values: Iterable[T]) -> None:
        """Replace all items; raises as `add` does."""
        self._items = [self._values.accept(value, None) for value in values]

    def clear(self) -> None:
        """Remove all items."""
        self._items.clear()

    def encoded(self) -> tuple[bytes, ...]:
        """The items as they are stored."""
        return tuple(map(self._values.encode, self._items))

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class ReadOnlyBroadcastState(Generic[K, V]):
    """A broadcast map for the side that reads it. Values are copies: changing one changes no state."""

    def __init__(self, entries: _Entries) -> None:
        self._entries = entries

    def get(self, key: K) -> V | None:
        """The value of a map key, None if there is none."""
        found: V | None = isolate(self._entries.live.get(self._entries.canonical(key)))
        return found

    def contains(self, key: K) -> bool:
        """Whether a map key has a value."""
        return self._entries.canonical(key) in self._entries.live

    def items(self) -> list[tuple[K, V]]:
        """All entries."""
        return [(key, isolate(value)) for key, value in self._entries.live.items()]

    def keys(self) -> list[K]:
        """All map keys."""
        return list(self._entries.live)

    def values(self) -> list[V]:
        """All values."""
        return [isolate(value) for value in self._entries.live.values()]

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return not self._entries.live

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """A broadcast map for the broadcast side: each subtask has its own copy and must change it in the same way."""

    def read_only(self) -> ReadOnlyBroadcastState[K, V]:
        """The read-only map for the other side."""
        return _Refusing(self._entries)

    def put(self, key: K, value: V) -> None:
        """Store a value under a map key.

        Raises:
            RecordError: the state's codec cannot restore the same value, or the key has no canonical form.
        """
        self._entries.put(key, value)

    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Store several entries: a mapping, or pairs of key and value as in PyFlink 2.2; raises as `put` does."""
        for key, value in dict(dict_value).items():
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Remove a map key; a missing one is not an error."""
        self._entries.remove(key)

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class OperatorStates:
    """The operator states of one operator in one subtask, restored from `restored`."""

    def __init__(self, restored: RestoredOperator, subtask: int) -> None:
        self._restored = {held.name: held for held in restored.lists if held.declared is not None}
        self._subtask = subtask
        self._states: dict[str, tuple[StateDescriptor, Dealt, Any, _Encoded]] = {}

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> OperatorListState[Any]:
        """A list of which each subtask gets an equal share when the parallelism changes."""
        return self._list(state_descriptor, "split")

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> OperatorListState[Any]:
        """A list of which each subtask gets the items of all subtasks after a restore."""
        return self._list(state_descriptor, "union")

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """A map that is the same in each subtask."""
        known = self._known(state_descriptor, MapStateDescriptor, "broadcast")
        if known is None:
            entries = _Entries(state_descriptor, *self._stored(state_descriptor))
            known = self._keep(state_descriptor, "broadcast", BroadcastState[Any, Any](entries), entries)
        state: BroadcastState[Any, Any] = known
        return state

    def rename_candidates(self) -> list[tuple[str, str]]:
        """Restored states that were not declared, each with the new states of the same kind: one may be the same state, renamed."""
        new = [
            (name, dealt)
            for name, (_, dealt, _, _) in self._states.items()
            if DECLARED + name not in self._restored
        ]
        left = [(each.declared, each.dealt) for each in self._restored.values()]
        return [
            (old, name)
            for old, was in left
            if old is not None and old not in self._states
            for name, dealt in new
            if dealt == was
        ]

    def snapshot(self) -> tuple[OperatorList, ...]:
        """All lists, encoded; lists that the program does not declare any more are unchanged."""
        held = [
            OperatorList(DECLARED + name, source.encoded(), dealt, entry_of(descriptor).fingerprint)
            for name, (descriptor, dealt, _, source) in self._states.items()
        ]
        left = [each for name, each in self._restored.items() if each.declared not in self._states]
        # Every subtask has all items of a union, so only one stores them.
        held += [each for each in left if each.dealt != "union" or self._subtask == 0]
        return tuple(held)

    def _list(self, descriptor: ListStateDescriptor, dealt: Dealt) -> OperatorListState[Any]:
        known = self._known(descriptor, ListStateDescriptor, dealt)
        if known is None:
            values = Values(descriptor.name, codec_for(descriptor.stored_type))
            items, convert = self._stored(descriptor)
            state = OperatorListState[Any](values, map(convert, items))
            known = self._keep(descriptor, dealt, state, state)
        found: OperatorListState[Any] = known
        return found

    def _known(self, descriptor: StateDescriptor, expected: type[StateDescriptor], dealt: Dealt) -> Any:
        if not isinstance(descriptor, expected):
            raise ConfigError(
                f"this operator state needs a {expected.__name__}; got {type(descriptor).__name__}"
            )
        if descriptor.ttl_config is not None:
            raise ConfigError(
                f"operator state {descriptor.name!r} cannot expire; got {dealt} state with a time to live; "
                "expected keyed state, which alone supports it; remove old items when they are read"
            )
        if descriptor.name not in self._states:
            return None
        known, as_what, state, _ = self._states[descriptor.name]
        if (known, as_what) != (descriptor, dealt):
            raise ConfigError(
                f"operator state {descriptor.name!r} is declared twice; got {dealt} {descriptor}; "
                f"expected {as_what} {known}; use another name"
            )
        return state

    def _keep(self, descriptor: StateDescriptor, dealt: Dealt, state: Any, source: _Encoded) -> Any:
        self._states[descriptor.name] = (descriptor, dealt, state, source)
        return state

    def _stored(self, descriptor: StateDescriptor) -> tuple[tuple[bytes, ...], Callable[[bytes], bytes]]:
        """The items of a state, and the conversion of stored values to the declared type."""
        held = self._restored.get(DECLARED + descriptor.name)
        if held is None:
            return (), _same
        if held.stored is msgspec.UNSET or held.stored == entry_of(descriptor).fingerprint:
            return held.items, _same
        return held.items, conversion(held.stored, descriptor, now=0)


class _Refusing(ReadOnlyBroadcastState[K, V]):
    """Refuses changes, for programs that ignore the read-only type."""

    def _refuse(self, *given: Any) -> NoReturn:
        raise ConfigError(
            f"broadcast state {self._entries.name!r} is read-only on this side; got a change in "
            "process_element or on_timer; expected one in process_broadcast_element, which runs in every subtask "
            "with the same records; move it there, and broadcast what it depends on"
        )

    put = put_all = remove = clear = __setitem__ = __delitem__ = _refuse


class _Encoded(Protocol):
    """A state that can be written to a checkpoint."""

    def encoded(self) -> tuple[bytes, ...]:
        """The items as they are stored."""
        ...


class _Entries:
    """A broadcast map with its encoded entries, so that a barrier encodes only changes."""

    def __init__(
        self, descriptor: MapStateDescriptor, items: Iterable[bytes], convert: Callable[[bytes], bytes]
    ) -> None:
        self.name = descriptor.name
        self._key_type = descriptor.key_type_info
        self._values = Values(descriptor.name, codec_for(descriptor.stored_type))
        self.live: dict[Any, Any] = {}
        self._stored: dict[Any, bytes] = {}
        for item in items:
            encoded_key, encoded_value = _ITEMS.decode(item)
            key, encoded_value = key_from_bytes(encoded_key), convert(encoded_value)
            self.live[key] = self._values.decode(encoded_value)
            self._stored[key] = _ENCODER.encode((encoded_key, encoded_value))

    def canonical(self, key: Any) -> Any:
        return canonical(key, self._key_type)

    def put(self, key: Any, value: Any) -> None:
        key = self.canonical(key)
        value = self._values.accept(value, key)
        self._stored[key] = _ENCODER.encode((key_bytes(key), self._values.encode(value)))
        self.live[key] = value

    def remove(self, key: Any) -> None:
        key = self.canonical(key)
        self.live.pop(key, None)
        self._stored.pop(key, None)

    def clear(self) -> None:
        self.live.clear()
        self._stored.clear()

    def encoded(self) -> tuple[bytes, ...]:
        return tuple(self._stored.values())


def _same(data: bytes) -> bytes:
    return data


_ENCODER: Final = msgspec.msgpack.Encoder()
_ITEMS: Final = msgspec.msgpack.Decoder(tuple[bytes, bytes])
