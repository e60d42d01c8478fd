"""State access in `async def` functions, under the names of Flink's asynchronous state API.

Such a function runs outside the thread that owns the state, with others of other keys. Each operation is sent and
executed by that thread, for the key of the current record, and returns a copy. Tasks that a function starts have the
same current record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from tidegate.errors import ConfigError
from tidegate.isolation import isolate

__all__ = [
    "CURRENT_RECORD",
    "AsyncFolded",
    "AsyncList",
    "AsyncMap",
    "AsyncOrderedMap",
    "AsyncValue",
    "CurrentRecord",
    "OnlyAsync",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class CurrentRecord(Protocol):
    """A record or timer that an `async def` works on."""

    def ask(self, operation: Callable[[], Any]) -> Awaitable[Any]:
        """Let the thread of the state carry out an operation with the record's key bound."""
        ...


CURRENT_RECORD: Final = ContextVar[CurrentRecord | None]("CURRENT_RECORD", default=None)


class AsyncValue(Generic[T]):
    """The `async_` methods of one value."""

    __slots__ = ()

    async def async_value(self) -> T:
        """A copy of the value of the key, the descriptor's default if there is none."""
        value: T = await _ask(self, "value")
        return value

    async def async_update(self, value: T | None) -> None:
        """Store a value; None clears."""
        await _ask(self, "update", value)

    async def async_clear(self) -> None:
        """Forget the value of the key."""
        await _ask(self, "clear")


class AsyncList(Generic[T]):
    """The `async_` methods of a list."""

    __slots__ = ()

    async def async_get(self) -> list[T]:
        """Copies of all elements."""
        elements: list[T] = await _ask(self, "get")
        return elements

    async def async_add(self, value: T) -> None:
        """Append an element."""
        await _ask(self, "add", value)

    async def async_add_all(self, values: Iterable[T]) -> None:
        """Append elements."""
        await _ask(self, "add_all", list(values))

    async def async_update(self, values: Iterable[T]) -> None:
        """Replace all elements."""
        await _ask(self, "update", list(values))

    async def async_clear(self) -> None:
        """Forget all elements of the key."""
        await _ask(self, "clear")


class AsyncMap(Generic[K, V]):
    """The `async_` methods of a map."""

    __slots__ = ()

    async def async_get(self, key: K) -> V | None:
        """A copy of the value of a map key, None if there is none."""
        value: V | None = await _ask(self, "get", key)
        return value

    async def async_put(self, key: K, value: V) -> None:
        """Store a value under a map key."""
        await _ask(self, "put", key, value)

    async def async_put_all(self, dict_value: Mapping[K, V]) -> None:
        """Store several."""
        await _ask(self, "put_all", dict(dict_value))

    async def async_remove(self, key: K) -> None:
        """Forget a map key."""
        await _ask(self, "remove", key)

    async def async_contains(self, key: K) -> bool:
        """Whether a map key has a value."""
        found: bool = await _ask(self, "contains", key)
        return found

    async def async_items(self) -> list[tuple[K, V]]:
        """Copies of all entries."""
        items: list[tuple[K, V]] = await _ask(self, "items")
        return items

    async def async_keys(self) -> list[K]:
        """All map keys."""
        keys: list[K] = await _ask(self, "keys")
        return keys

    async def async_values(self) -> list[V]:
        """Copies of all values."""
        values: list[V] = await _ask(self, "values")
        return values

    async def async_is_empty(self) -> bool:
        """Whether the map is empty."""
        empty: bool = await _ask(self, "is_empty")
        return empty

    async def async_clear(self) -> None:
        """Forget all entries of the key."""
        await _ask(self, "clear")


class AsyncOrderedMap(AsyncMap[K, V]):
    """The additional `async_` methods of an ordered map."""

    __slots__ = ()

    async def async_first(self) -> tuple[K, V] | None:
        """A copy of the entry with the smallest key, None if there is none."""
        entry: tuple[K, V] | None = await _ask(self, "first")
        return entry

    async def async_last(self) -> tuple[K, V] | None:
        """A copy of the entry with the largest key, None if there is none."""
        entry: tuple[K, V] | None = await _ask(self, "last")
        return entry

    async def async_range(
        self, first: K | None = None, last: K | None = None, *, reverse: bool = False
    ) -> list[tuple[K, V]]:
        """Copies of the entries with first <= key < last, ascending or in reverse."""
        entries: list[tuple[K, V]] = await _ask(self, "range", first, last, reverse=reverse)
        return entries

    async def async_remove_range(self, first: K | None = None, last: K | None = None) -> None:
        """Forget the entries with first <= key < last."""
        await _ask(self, "remove_range", first, last)


class AsyncFolded(Generic[IN, OUT]):
    """The `async_` methods of what added values come to."""

    __slots__ = ()

    async def async_get(self) -> OUT | None:
        """A copy of the aggregated value, None if nothing was added."""
        result: OUT | None = await _ask(self, "get")
        return result

    async def async_add(self, value: IN) -> None:
        """Take in a value."""
        await _ask(self, "add", value)

    async def async_clear(self) -> None:
        """Forget everything added to the key."""
        await _ask(self, "clear")


class OnlyAsync:
    """A handle as functions that are `async def` have it: it has nothing but the `async_` methods."""

    def __init__(self, name: str, state: Any) -> None:
        self._name = name
        self._state = state

    def __getattr__(self, name: str) -> Any:
        if name.startswith("async_"):
            return getattr(self._state, name)
        raise ConfigError(
            f"state {self._name!r} is used in an `async def` function; got {name}(...); expected await "
            f"async_{name}(...)"
        )


async def _ask(state: object, method: str, *given: Any, **named: Any) -> Any:
    """The result of a method of a state, for the current record."""
    record = CURRENT_RECORD.get()
    if record is None:
        raise ConfigError(
            f"async_{method}(...) was called outside an `async def` function, where no record is being processed; "
            f"expected {method}(...)"
        )
    return await record.ask(partial(_answer, partial(getattr(state, method), **named), isolate(given)))


def _answer(operation: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    result = operation(*given)
    return isolate(list(result) if isinstance(result, Iterator) else result)
