"""Model test of value states and timers against a dict: a Hypothesis state machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.backends.spi import Backend, Timer
from tidegate.testing.keyed_machine import ALL_KEYS, KEYS, NAMESPACES, SPACES, KeyedMachine
from tidegate.types import Types

__all__ = ["KeyedModel"]

COUNT = ValueStateDescriptor("count", Types.LONG(), default=0)
ITEMS = ValueStateDescriptor("items", default=[])
TIMES = st.integers(-3, 12)


@dataclass
class Content:
    """The expected content."""

    counts: dict[Any, int] = field(default_factory=dict)
    items: dict[Any, list[int]] = field(default_factory=dict)
    spaces: dict[tuple[Any, bytes], list[int]] = field(default_factory=dict)
    timers: set[tuple[int, Any]] = field(default_factory=set)


class KeyedModel(KeyedMachine):
    """Values and timers of keys, and of namespaces of keys."""

    def __init__(self, backend: Backend, root: Path) -> None:
        super().__init__(backend, root, Content())

    @rule(key=KEYS, value=st.integers(-2, 2))
    def update(self, key: Any, value: int) -> None:
        """Write an immutable value."""
        self.bound(key).value_state(COUNT).update(value)
        self.model.counts[key] = value

    @rule(key=KEYS, item=st.integers(0, 3))
    def mutate(self, key: Any, item: int) -> None:
        """Change a mutable value in place, the default too."""
        items = self.bound(key).value_state(ITEMS).value()
        items.append(item)
        self.read_lists.append(items)
        self.model.items.setdefault(key, []).append(item)

    @rule(key=KEYS, items=st.lists(st.integers(0, 3), max_size=2))
    def replace(self, key: Any, items: list[int]) -> None:
        """Write a mutable value, then change the argument, which must have no effect."""
        self.bound(key).value_state(ITEMS).update(items)
        self.model.items[key] = list(items)
        items.append(99)

    @rule(key=KEYS)
    def clear(self, key: Any) -> None:
        """Clear both values of a key."""
        store = self.bound(key)
        store.value_state(COUNT).clear()
        store.value_state(ITEMS).clear()
        self.model.counts.pop(key, None)
        self.model.items.pop(key, None)

    @rule(key=KEYS)
    def read(self, key: Any) -> None:
        """Read both values."""
        store = self.bound(key)
        assert store.value_state(COUNT).value() == self.model.counts.get(key, 0)
        assert store.value_state(ITEMS).value() == self.model.items.get(key, [])

    @rule(space=SPACES, item=st.integers(0, 3))
    def mutate_in(self, space: tuple[Any, bytes], item: int) -> None:
        """Change a mutable value in a namespace; the value of the key without a namespace stays the same."""
        items = self.inside(space).value_state(ITEMS, namespaced=True).value()
        items.append(item)
        self.read_lists.append(items)
        self.model.spaces.setdefault(space, []).append(item)

    @rule(space=SPACES)
    def delete_in(self, space: tuple[Any, bytes]) -> None:
        """Delete a namespace."""
        self.inside(space).delete_in(*space)
        self.model.spaces.pop(space, None)

    @rule(space=SPACES)
    def read_in(self, space: tuple[Any, bytes]) -> None:
        """Read a value in a namespace, and that of the other bound key."""
        store = self.inside(space)
        assert store.value_state(ITEMS, namespaced=True).value() == self.model.spaces.get(space, [])
        self.read(space[0])
        assert store.value_state(ITEMS, namespaced=True).value() == self.model.spaces.get(space, [])

    @rule(key=KEYS, time=TIMES)
    def register(self, key: Any, time: int) -> None:
        """Register a timer."""
        self.bound(key).event_timers.register(Timer(time, key))
        self.model.timers.add((time, key))

    @rule(key=KEYS, time=TIMES)
    def delete(self, key: Any, time: int) -> None:
        """Delete a timer that may not exist."""
        self.bound(key).event_timers.delete(Timer(time, key))
        self.model.timers.discard((time, key))

    @rule(until=TIMES, again=st.booleans())
    def fire(self, until: int, again: bool) -> None:
        """Advance time; with `again`, a timer registers another one for the time at which it fires."""
        for store in self.stores:
            fired: list[Timer] = []
            for timer in store.event_timers.due(until):
                if again and not fired:
                    store.event_timers.register(Timer(timer.time, timer.key))
                    self.model.timers.add((timer.time, timer.key))
                    fired.append(timer)
                    continue
                fired.append(timer)
                self.model.timers.remove((timer.time, timer.key))
            assert [timer.time for timer in fired] == sorted(timer.time for timer in fired)
        assert all(time > until for time, _ in self.model.timers)

    @invariant()
    def next_timer_is_known(self) -> None:
        """The earliest timer is known at any time."""
        times = [time for store in self.stores if (time := store.event_timers.next_time()) is not None]
        assert min(times, default=None) == min((time for time, _ in self.model.timers), default=None)

    def compare(self) -> None:
        """Read every key and namespace that was ever used, then let every timer fire."""
        for key in ALL_KEYS:
            for namespace in NAMESPACES:
                self.read_in((key, namespace))
        if len(self.stores) == 1:
            self.fire(until=99, again=False)
