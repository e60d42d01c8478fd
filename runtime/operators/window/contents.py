"""Contents of the current window in keyed state: one combined value, or all records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from tidegate.backends.keyed.descriptors import ListStateDescriptor, ValueStateDescriptor
from tidegate.backends.keyed.store import KeyedStore
from tidegate.isolation import ATOMS, is_immutable
from tidegate.runtime.operators.plain import plain_test
from tidegate.runtime.operators.window.evictors import Evictor, EvictorContext, TimestampedValue
from tidegate.runtime.operators.window.folding import Folding
from tidegate.runtime.operators.window.windowing import Windowing
from tidegate.types import TypeInformation, Types

__all__ = ["Evaluate", "WindowContents", "open_contents"]

Evaluate: TypeAlias = Callable[[list[Any]], None]
"""Calls the window function with the elements of a window."""


def open_contents(store: KeyedStore, windowing: Windowing) -> WindowContents:
    """The contents of windows: all records if there is an evictor or no function that combines them."""
    folding, record_type = windowing.folding, windowing.record_type
    if windowing.evictor is not None:
        return _Evicted(store, record_type, folding, windowing.evictor)
    return _Folded(store, folding) if folding is not None else _Buffered(store, record_type)


class WindowContents(ABC):
    """The contents of the window that the store is bound to, in slot `slot` of its row."""

    slot: int

    @abstractmethod
    def add(self, value: Any, timestamp: int) -> None:
        """Add a record."""

    @abstractmethod
    def fire(self, evaluate: Evaluate, window: Any, ctx: EvictorContext) -> None:
        """Evaluate the contents unless they are empty."""

    @abstractmethod
    def content(self) -> Any:
        """All contents, for `put`."""

    @abstractmethod
    def put(self, content: Any) -> None:
        """Add the contents of another window."""

    @abstractmethod
    def clear(self) -> None:
        """Delete the contents."""

    @abstractmethod
    def is_steady(self, held: Any) -> bool:
        """Whether a loop may add records to the slot, by the lines of `adding`, until the row is written back."""

    @abstractmethod
    def adding(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        """How a loop adds record `v` of key `k` to `pane`, and the names it needs."""


class _Folded(WindowContents):
    """Contents as one combined value."""

    def __init__(self, store: KeyedStore, folding: Folding) -> None:
        descriptor = ValueStateDescriptor("window:folded", folding.stored_type)
        self._state = store.state(descriptor, namespaced=True)
        self._folding = folding
        self.slot = store.slots[descriptor.name]

    def add(self, value: Any, timestamp: int) -> None:
        self._state.update(self._folding.add(self._state.value(), value))

    def fire(self, evaluate: Evaluate, window: Any, ctx: EvictorContext) -> None:
        stored = self._state.value()
        if stored is not None:
            evaluate([self._folding.result(stored)])

    def content(self) -> Any:
        return self._state.value()

    def put(self, content: Any) -> None:
        stored = self._state.value()
        if content is not None:
            self._state.update(content if stored is None else self._folding.merge(stored, content))

    def clear(self) -> None:
        self._state.clear()

    def is_steady(self, held: Any) -> bool:
        # A mutable value is copied for each record, so that the function's earlier argument does not change.
        return held is not None and is_immutable(held)

    def adding(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        # The general test comes last, because it costs as much as the rest.
        plain = plain_test(self._folding.stored_type, "held")
        atoms = "are_atoms(map(type, held)) if type(held) is tuple else type(held) in ATOMS"
        steady = f"type(held) is pane.kind and (({atoms}) or is_immutable(held))"
        lines = (
            f"held = combine(pane.values[{self.slot}], v)",
            f"if {f'{plain} or {steady}' if plain else steady}: pane.values[{self.slot}] = held",
            "else: replace(row.key, held)",
        )
        names = {"are_atoms": ATOMS.issuperset, "is_immutable": is_immutable}
        return lines, {**names, "combine": self._folding.combine}


class _Buffered(WindowContents):
    """Contents as all records."""

    def __init__(self, store: KeyedStore, element_type: TypeInformation | None) -> None:
        self._state = store.state(ListStateDescriptor("window:records", element_type), namespaced=True)
        self.slot = store.slots["window:records"]

    def add(self, value: Any, timestamp: int) -> None:
        self._state.add(value)

    def fire(self, evaluate: Evaluate, window: Any, ctx: EvictorContext) -> None:
        elements = list(self._state.get())
        if elements:
            evaluate(elements)

    def content(self) -> Any:
        return list(self._state.get())

    def put(self, content: Any) -> None:
        self._state.add_all(content)

    def clear(self) -> None:
        self._state.clear()

    def is_steady(self, held: Any) -> bool:
        return held is not None

    def adding(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        return (f"pane.values[{self.slot}].add(v, row.key)",), {}


class _Evicted(_Buffered):
    """Contents as all records with their times, because the evictor needs them before they are combined."""

    def __init__(
        self,
        store: KeyedStore,
        record_type: TypeInformation | None,
        folding: Folding | None,
        evictor: Evictor,
    ) -> None:
        super().__init__(store, record_type and Types.TUPLE([record_type, Types.LONG()]))
        self._folding = folding
        self._evictor = evictor

    def add(self, value: Any, timestamp: int) -> None:
        self._state.add((value, timestamp))

    def fire(self, evaluate: Evaluate, window: Any, ctx: EvictorContext) -> None:
        before = [TimestampedValue(*pair) for pair in self._state.get()]
        if not before:
            return
        kept = self._evictor.evict_before(before, len(before), window, ctx)
        if kept:
            evaluate(self._combined([element.value for element in kept]))
            kept = self._evictor.evict_after(kept, len(kept), window, ctx)
        if len(kept) < len(before):
            self._state.update([tuple(element) for element in kept])

    def _combined(self, values: list[Any]) -> list[Any]:
        if self._folding is None:
            return values
        stored = None
        for value in values:
            stored = self._folding.add(stored, value)
        return [self._folding.result(stored)]
