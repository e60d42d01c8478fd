"""Model test of lists, maps, reductions and aggregates against plain Python: a Hypothesis state machine.

A space is a key with or without a namespace; it has a list, a map, a maximum and a sum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tidegate.backends.keyed.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from tidegate.backends.spi import Backend
from tidegate.testing.keyed_machine import MEANWHILE, KeyedMachine
from tidegate.types import Types

__all__ = ["CollectionModel"]

ALL_SPACES = (("b\0", None), ("b\0", b"\0"), (7, None))
"""Few, so that stored keys are used again soon."""
SPACES = st.sampled_from(ALL_SPACES)
ALL_MAP_KEYS = ("y\0", 3)
MAP_KEYS = st.sampled_from(ALL_MAP_KEYS)
ITEMS = st.integers(0, 3)


class Summing:
    """A sum in a list of one number: an accumulator that is changed in place."""

    def create_accumulator(self) -> list[int]:
        """A new accumulator."""
        return [0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        """Add a number."""
        accumulator[0] += value
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        """The sum."""
        return accumulator[0]


ROWS = ListStateDescriptor("rows")
NUMBERS = ListStateDescriptor("numbers", Types.LONG())
TABLE = MapStateDescriptor("table")
LARGEST = ReducingStateDescriptor("largest", max, Types.LONG())
SUM = AggregatingStateDescriptor("sum", Summing(), Types.LIST(Types.LONG()))
ALL_STATES = (ROWS, NUMBERS, TABLE, LARGEST, SUM)


@dataclass
class Space:
    """The expected content of one space."""

    rows: list[list[int]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    table: dict[Any, list[int]] = field(default_factory=dict)
    added: list[int] = field(default_factory=list)


class CollectionModel(KeyedMachine):
    """Collections of keys, and of namespaces of keys."""

    def __init__(self, backend: Backend, root: Path) -> None:
        super().__init__(backend, root, {space: Space() for space in ALL_SPACES})

    def state(self, space: Any, descriptor: StateDescriptor) -> Any:
        """The handle of a state, bound to a space."""
        key, namespace = space
        store = self.bound(key) if namespace is None else self.inside(space)
        return store.state(descriptor, namespaced=namespace is not None)

    @rule(space=SPACES, item=ITEMS, count=st.sampled_from((1, 70)))
    def grow(self, space: Any, item: int, count: int) -> None:
        """Append to both lists, then change the argument, which must have no effect."""
        added = [[item, number] for number in range(count)]
        self.model[space].rows += [[*row] for row in added]
        self.state(space, ROWS).add_all(added)
        added[0].append(97)
        self.state(space, NUMBERS).add_all(range(count))
        self.model[space].numbers += range(count)

    @rule(space=SPACES, item=ITEMS, place=st.sampled_from((0, -1)), meanwhile=MEANWHILE)
    def mutate_element(self, space: Any, item: int, place: int, meanwhile: str) -> None:
        """Change an element of a list in place."""
        if not self.model[space].rows:
            self.grow(space, item, 70)
        self.go_on(meanwhile)
        element = self.state(space, ROWS).get()[place]
        element.append(item)
        self.model[space].rows[place].append(item)
        self.read_lists.append(element)

    @rule(space=SPACES, rows=st.lists(st.lists(ITEMS, max_size=1), max_size=2))
    def replace_list(self, space: Any, rows: list[list[int]]) -> None:
        """Rewrite a list."""
        self.state(space, ROWS).update(rows)
        self.model[space].rows = [[*row] for row in rows]

    @rule(space=SPACES, key=MAP_KEYS, value=st.lists(ITEMS, max_size=2))
    def put(self, space: Any, key: Any, value: list[int]) -> None:
        """Write an entry of a map, then change the argument, which must have no effect."""
        self.model[space].table[key] = [*value]
        self.state(space, TABLE).put(key, value)
        value.append(97)

    @rule(space=SPACES, key=MAP_KEYS, meanwhile=MEANWHILE)
    def remove(self, space: Any, key: Any, meanwhile: str) -> None:
        """Remove an entry that may not exist."""
        self.go_on(meanwhile)
        self.state(space, TABLE).remove(key)
        self.model[space].table.pop(key, None)

    @rule(space=SPACES, key=MAP_KEYS, item=ITEMS, meanwhile=MEANWHILE)
    def mutate_entry(self, space: Any, key: Any, item: int, meanwhile: str) -> None:
        """Change the value of an entry in place."""
        expected = self.model[space].table
        if key not in expected:
            self.put(space, key, [item])
        self.go_on(meanwhile)
        value = self.state(space, TABLE).get(key)
        assert value == self.model[space].table[key]
        value.append(item)
        self.model[space].table[key].append(item)
        self.read_lists.append(value)

    @rule(space=SPACES, item=ITEMS, drop=MAP_KEYS)
    def mutate_while_iterating(self, space: Any, item: int, drop: Any) -> None:
        """Change every value in place during an iteration, and remove one entry."""
        table, expected = self.state(space, TABLE), self.model[space].table
        seen = []
        for key, value in table.items():
            value.append(item)
            expected[key].append(item)
            self.read_lists.append(value)
            seen.append(key)
            table.remove(drop)
        assert len(seen) == len(set(seen))
        assert set(expected) - {drop} <= set(seen) <= set(expected)
        if seen:
            expected.pop(drop, None)

    @rule(space=SPACES, value=st.integers(-2, 2))
    def add(self, space: Any, value: int) -> None:
        """Add a number to the maximum and the sum."""
        self.state(space, LARGEST).add(value)
        self.state(space, SUM).add(value)
        self.model[space].added.append(value)

    @rule(space=SPACES, states=st.sets(st.sampled_from(range(len(ALL_STATES)))), meanwhile=MEANWHILE)
    def clear(self, space: Any, states: set[int], meanwhile: str) -> None:
        """Clear some states of a space; maximum and sum together."""
        self.go_on(meanwhile)
        descriptors = {ALL_STATES[number] for number in states}
        if descriptors & {LARGEST, SUM}:
            descriptors |= {LARGEST, SUM}
        for descriptor in descriptors:
            self.state(space, descriptor).clear()
            setattr(
                self.model[space],
                {"largest": "added", "sum": "added"}.get(descriptor.name, descriptor.name),
                {} if descriptor is TABLE else [],
            )

    @rule(meanwhile=MEANWHILE)
    def delete_in(self, meanwhile: str) -> None:
        """Delete a namespace."""
        space = ALL_SPACES[1]
        if not self.model[space].table:
            self.put(space, 3, [0])
        self.go_on(meanwhile)
        self.state(space, TABLE)
        self.bound(space[0]).delete_in(*space)
        self.model[space] = Space()

    @rule(space=SPACES)
    def read(self, space: Any) -> None:
        """Read everything of a space."""
        expected = self.model[space]
        table = self.state(space, TABLE)
        assert dict(table.items()) == expected.table
        assert set(table.keys()) == set(expected.table)
        assert table.is_empty() == (not expected.table)
        assert {key for key in ALL_MAP_KEYS if key in table} == set(expected.table)
        assert self.state(space, ROWS).get() == expected.rows
        assert self.state(space, NUMBERS).get() == expected.numbers
        assert self.state(space, LARGEST).get() == max(expected.added, default=None)
        assert self.state(space, SUM).get() == (sum(expected.added) if expected.added else None)

    @rule(descriptor=st.sampled_from((ROWS, TABLE, SUM)))
    def find_keys(self, descriptor: StateDescriptor) -> None:
        """Exactly the keys with content in a state are found."""
        name = {"sum": "added"}.get(descriptor.name, descriptor.name)
        found = []
        for store in self.stores:
            store.state(descriptor)
            found += list(store.keys(descriptor.name))
        assert set(found) == {
            key
            for (key, namespace), space in self.model.items()
            if namespace is None and getattr(space, name)
        }
        assert len(found) == len(set(found))

    def compare(self) -> None:
        """Read every space; then clear all, which must leave no entries."""
        for space in self.model:
            self.read(space)
        if len(self.stores) == 1:
            for space in self.model:
                for key in ALL_MAP_KEYS:
                    self.remove(space, key, "nothing")
                self.clear(
                    space,
                    {number for number, state in enumerate(ALL_STATES) if state is not TABLE},
                    "nothing",
                )
            self.save(rely=True)
            assert list(self.stores[0]._materialisation.scan(b"\0", b"\xff")) == []
