"""Model test of ordered maps against sorted dicts: a Hypothesis state machine.

A space is a key with or without a namespace. Ranges are read from both ends, during changes, over entries that are
cached, stored, removed, and removed but not yet written.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tidegate.backends.keyed.descriptors import OrderedMapStateDescriptor
from tidegate.backends.keyed.ordered_state import OrderedMapState
from tidegate.backends.spi import Backend
from tidegate.testing.keyed_machine import MEANWHILE, KeyedMachine
from tidegate.types import Types

__all__ = ["OrderedModel"]

KEY = Types.TUPLE([Types.LONG(), Types.OPTIONAL(Types.STRING())])
ENTRIES = OrderedMapStateDescriptor("entries", KEY)

ALL_SPACES = (("b\0", None), ("b\0", b"\0"), (7, None))
SPACES = st.sampled_from(ALL_SPACES)
NUMBERS = st.integers(-3, 3)
KEYS = st.tuples(NUMBERS, st.sampled_from((None, "", "a\0", "b")))
BOUNDS = st.none() | st.tuples(NUMBERS) | KEYS
BULK = 80
"""More than one read fetches, in a permanent space, so that a range is partly stored, cached and changed."""


class OrderedModel(KeyedMachine):
    """Ordered maps of keys, and of namespaces of keys."""

    def __init__(self, backend: Backend, root: Path) -> None:
        super().__init__(backend, root, {space: {} for space in ALL_SPACES})

    def state(self, space: Any) -> OrderedMapState[Any, Any]:
        """The handle, bound to a space."""
        key, namespace = space
        store = self.bound(key) if namespace is None else self.inside(space)
        found: OrderedMapState[Any, Any] = store.state(ENTRIES, namespaced=namespace is not None)
        return found

    def within(self, space: Any, first: Any, last: Any) -> list[Any]:
        """The keys that a range should have, in order."""
        low, high = _placed(first) if first is not None else None, _placed(last) if last is not None else None
        placed = sorted((_placed(key), key) for key in self.model[space])
        return [key for at, key in placed if (low is None or at >= low) and (high is None or at < high)]

    @initialize(space=SPACES, meanwhile=MEANWHILE)
    def fill(self, space: Any, meanwhile: str) -> None:
        """Fill a large map."""
        state = self.state(space)
        for number in range(BULK):
            state.put((number, "x"), [number])
            self.model[space][number, "x"] = [number]
        self.go_on(meanwhile)

    @rule(space=SPACES, key=KEYS, value=st.lists(NUMBERS, max_size=1))
    def put(self, space: Any, key: Any, value: list[int]) -> None:
        """Write an entry, then change the argument, which must have no effect."""
        self.model[space][key] = [*value]
        self.state(space).put(key, value)
        value.append(97)

    @rule(space=SPACES, key=KEYS, meanwhile=MEANWHILE)
    def remove(self, space: Any, key: Any, meanwhile: str) -> None:
        """Remove an entry that may not exist."""
        self.go_on(meanwhile)
        self.state(space).remove(key)
        self.model[space].pop(key, None)

    @rule(space=SPACES, key=KEYS)
    def get(self, space: Any, key: Any) -> None:
        """Read one entry."""
        state, expected = self.state(space), self.model[space].get(key)
        assert (key in state) == (expected is not None)
        assert state.get(key) == expected

    @rule(space=SPACES, largest=st.booleans(), count=st.integers(1, 40), meanwhile=MEANWHILE)
    def take(self, space: Any, count: int, meanwhile: str, *, largest: bool) -> None:
        """Remove entries one by one from one end."""
        self.go_on(meanwhile)
        state = self.state(space)
        for key in self.within(space, None, None)[:: -1 if largest else 1][:count]:
            assert (state.last() if largest else state.first()) == (key, self.model[space].pop(key))
            state.remove(key)

    @rule(space=SPACES, first=BOUNDS, last=BOUNDS, reverse=st.booleans(), meanwhile=MEANWHILE)
    def read_range(self, space: Any, first: Any, last: Any, meanwhile: str, *, reverse: bool) -> None:
        """Read a range, in part and as a whole."""
        self.go_on(meanwhile)
        state, expected = self.state(space), self.within(space, first, last)[:: -1 if reverse else 1]
        part = [key for key, _ in islice(state.range(first, last, reverse=reverse), 3)]
        assert part == expected[:3]
        assert list(state.range(first, last, reverse=reverse)) == [
            (key, self.model[space][key]) for key in expected
        ]

    @rule(space=SPACES, first=BOUNDS, last=BOUNDS, meanwhile=MEANWHILE)
    def remove_range(self, space: Any, first: Any, last: Any, meanwhile: str) -> None:
        """Remove a range."""
        self.go_on(meanwhile)
        self.state(space).remove_range(first, last)
        for key in self.within(space, first, last):
            del self.model[space][key]

    @rule(space=SPACES, item=NUMBERS, key=KEYS, reverse=st.booleans(), meanwhile=MEANWHILE)
    def change_while_iterating(
        self, space: Any, item: int, key: Any, meanwhile: str, *, reverse: bool
    ) -> None:
        """Change every value in place during an iteration; remove one entry and add one."""
        self.go_on(meanwhile)
        state, expected = self.state(space), self.model[space]
        came, before, seen = (item, "new"), set(expected), []
        for shown, value in state.range(reverse=reverse):
            value.append(item)
            expected.setdefault(shown, []).append(item)
            self.read_lists.append(value)
            seen.append(shown)
            if len(seen) == 1:
                state.remove(key)
                state.put(came, [])
                expected.pop(key, None)
                expected[came] = []
        assert seen == sorted(seen, key=_placed, reverse=reverse)
        assert before - {key, came} <= set(seen) <= before | {came}

    @rule(space=SPACES, meanwhile=MEANWHILE)
    def clear(self, space: Any, meanwhile: str) -> None:
        """Clear a space."""
        self.go_on(meanwhile)
        self.state(space).clear()
        self.model[space].clear()

    @rule(meanwhile=MEANWHILE)
    def delete_in(self, meanwhile: str) -> None:
        """Delete a namespace."""
        space = ALL_SPACES[1]
        self.put(space, (0, None), [0])
        self.go_on(meanwhile)
        self.state(space)
        self.bound(space[0]).delete_in(*space)
        self.model[space].clear()

    @rule(space=SPACES)
    def read(self, space: Any) -> None:
        """Read everything of a space, from both ends."""
        state, keys = self.state(space), self.within(space, None, None)
        assert list(state.items()) == [(key, self.model[space][key]) for key in keys]
        assert list(state.keys()) == keys
        assert [key for key, _ in state.range(reverse=True)] == keys[::-1]
        assert state.is_empty() == (not keys)
        assert (state.first() or [None])[0] == (keys[0] if keys else None)
        assert (state.last() or [None])[0] == (keys[-1] if keys else None)

    def compare(self) -> None:
        """Read every space; then remove all, which must leave no entries."""
        for space in self.model:
            self.read(space)
        if len(self.stores) == 1:
            for space in self.model:
                self.state(space).remove_range((-99,), (5,))
                self.state(space).remove_range()
                self.model[space].clear()
            self.save(rely=True)
            assert list(self.stores[0]._materialisation.scan(b"\0", b"\xff")) == []


def _placed(key: tuple[Any, ...]) -> Any:
    """The sort position of a key: a bound may be a prefix of a key, and None comes first."""
    return tuple((part is not None, part) for part in key)
