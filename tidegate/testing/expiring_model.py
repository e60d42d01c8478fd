"""Model test of states with time to live against a dict of timestamps: a Hypothesis state machine.

After any cleanup, eviction, checkpoint, crash or rescaling, a read returns exactly the values written (or read) less than
a TTL ago; at the end no entries are left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tidegate.backends.keyed.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    OrderedMapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.ttl import StateTtlConfig
from tidegate.backends.spi import Backend
from tidegate.testing.keyed_machine import MEANWHILE, KeyedMachine
from tidegate.types import Types

__all__ = ["ExpiringModel"]


@dataclass(frozen=True)
class Milliseconds:
    """A duration."""

    count: int

    def to_milliseconds(self) -> int:
        """It."""
        return self.count


LIFE: Final = 4
SPACES = st.sampled_from((("b\0", None), ("b\0", b"\0"), (7, None)))
ITEMS = st.integers(0, 1)
WAITS = st.integers(0, LIFE)
PROLONGED = st.booleans()
"""Whether a read also extends the TTL."""


@dataclass
class Space:
    """The expected content of one space for one TTL configuration: values with the time of their last use."""

    value: list[Any] = field(default_factory=list)
    largest: list[Any] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    table: dict[Any, list[Any]] = field(default_factory=dict)
    order: dict[int, list[Any]] = field(default_factory=dict)


class ExpiringModel(KeyedMachine):
    """Values, lists, maps and reductions with TTL, of keys and of namespaces of keys."""

    def __init__(self, backend: Backend, root: Path) -> None:
        super().__init__(backend, root, {})

    def state(self, space: Any, descriptor: StateDescriptor, *, prolonged: bool) -> Any:
        """The handle of a state, bound to a space."""
        key, namespace = space
        store = self.bound(key) if namespace is None else self.inside(space)
        builder = StateTtlConfig.new_builder(Milliseconds(LIFE)).cleanup_incrementally(2, prolonged)
        if prolonged:
            builder.update_ttl_on_read_and_write()
        builder.cleanup_in_rocksdb_compact_filter(3)
        descriptor.enable_time_to_live(builder.cleanup_full_snapshot().build())
        return store.state(descriptor, namespaced=namespace is not None)

    def expected(self, space: Any, *, prolonged: bool) -> Space:
        """The content of a space that has not expired."""
        held: Space = self.model.setdefault((space, prolonged), Space())
        now = self.clock.now_ms()
        if held.value and held.value[1] + LIFE <= now:
            held.value = []
        if held.largest and held.largest[1] + LIFE <= now:
            held.largest = []
        held.rows = [row for row in held.rows if row[1] + LIFE > now]
        held.table = {key: row for key, row in held.table.items() if row[1] + LIFE > now}
        held.order = {key: row for key, row in sorted(held.order.items()) if row[1] + LIFE > now}
        return held

    @rule(space=SPACES, prolonged=PROLONGED, value=st.one_of(ITEMS, st.lists(ITEMS, max_size=1)))
    def update(self, space: Any, value: Any, *, prolonged: bool) -> None:
        """Write a value, then change the argument, which must have no effect."""
        kept = [*value] if isinstance(value, list) else value
        self.expected(space, prolonged=prolonged).value = [kept, self.clock.now_ms()]
        self.state(space, _value(prolonged), prolonged=prolonged).update(value)
        if isinstance(value, list):
            value.append(97)

    @rule(space=SPACES, prolonged=PROLONGED, item=ITEMS)
    def add(self, space: Any, item: int, *, prolonged: bool) -> None:
        """Write a value, append to a list, put into a map, add to a reduction."""
        expected, now = self.expected(space, prolonged=prolonged), self.clock.now_ms()
        expected.value = [item, now]
        expected.rows.append([[item], now])
        expected.table[item] = [[item], now]
        expected.order[now % 3] = [[item], now]
        expected.largest = [max(item, *expected.largest[:1]), now] if expected.largest else [item, now]
        self.state(space, _value(prolonged), prolonged=prolonged).update(item)
        self.state(space, _rows(prolonged), prolonged=prolonged).add([item])
        self.state(space, _table(prolonged), prolonged=prolonged).put(item, [item])
        self.state(space, _order(prolonged), prolonged=prolonged).put(now % 3, [item])
        self.state(space, _largest(prolonged), prolonged=prolonged).add(item)

    @rule(space=SPACES, prolonged=PROLONGED, key=ITEMS)
    def get(self, space: Any, key: int, *, prolonged: bool) -> None:
        """Read one entry of a map."""
        expected = self.expected(space, prolonged=prolonged).table.get(key)
        found = self.state(space, _table(prolonged), prolonged=prolonged).get(key)
        assert found == (expected[0] if expected else None)
        if expected and prolonged:
            expected[1] = self.clock.now_ms()

    @rule(space=SPACES, prolonged=PROLONGED)
    def read(self, space: Any, *, prolonged: bool) -> None:
        """Read everything of a space."""
        expected = self.expected(space, prolonged=prolonged)
        value = self.state(space, _value(prolonged), prolonged=prolonged).value()
        assert value == (expected.value[0] if expected.value else None)
        largest = self.state(space, _largest(prolonged), prolonged=prolonged).get()
        assert largest == (expected.largest[0] if expected.largest else None)
        rows = self.state(space, _rows(prolonged), prolonged=prolonged).get()
        assert rows == [row for row, _ in expected.rows]
        table = dict(self.state(space, _table(prolonged), prolonged=prolonged).items())
        assert table == {key: row for key, (row, _) in expected.table.items()}
        if prolonged:
            for each in (expected.value, expected.largest, *expected.rows, *expected.table.values()):
                if each:
                    each[1] = self.clock.now_ms()
        self.read_in_order(space, prolonged=prolonged)

    @rule(space=SPACES, prolonged=PROLONGED, first=st.integers(0, 2), reverse=st.booleans())
    def read_in_order(self, space: Any, first: int = 0, *, prolonged: bool, reverse: bool = False) -> None:
        """Read an ordered map from some key on."""
        expected = self.expected(space, prolonged=prolonged).order
        state = self.state(space, _order(prolonged), prolonged=prolonged)
        entries = [(key, row[0]) for key, row in expected.items() if key >= first]
        if not first:
            assert state.first() == (entries[0] if entries else None)
            assert state.last() == (entries[-1] if entries else None)
        assert list(state.range(first, reverse=reverse)) == entries[:: -1 if reverse else 1]
        if prolonged:
            for key, _ in entries:
                expected[key][1] = self.clock.now_ms()

    @rule(
        space=SPACES,
        prolonged=PROLONGED,
        waits=st.tuples(WAITS, WAITS),
        others=st.tuples(MEANWHILE, MEANWHILE),
    )
    def live(self, space: Any, waits: tuple[int, int], others: tuple[str, str], *, prolonged: bool) -> None:
        """Advance time before and after a read, with another event in between."""
        self.add(space, 1, prolonged=prolonged)
        for wait, meanwhile in zip(waits, others, strict=True):
            self.go_on(meanwhile)
            self.clock.advance(wait)
            self.read(space, prolonged=prolonged)

    @rule(wait=WAITS)
    def look(self, wait: int) -> None:
        """Advance time and read every space."""
        self.clock.advance(wait)
        for space, prolonged in list(self.model):
            self.read(space, prolonged=prolonged)

    def compare(self) -> None:
        """Read every space; then let everything expire, which must leave no entries."""
        self.look(0)
        if len(self.stores) == 1:
            self.evict()
            self.clock.advance(2 * LIFE)
            for _ in range(5):
                self.save(rely=True)
            assert list(self.stores[0]._materialisation.scan(b"\0", b"\xff")) == []


def _value(prolonged: bool) -> ValueStateDescriptor:
    return ValueStateDescriptor(f"value {prolonged}")


def _largest(prolonged: bool) -> ReducingStateDescriptor:
    return ReducingStateDescriptor(f"largest {prolonged}", max)


def _rows(prolonged: bool) -> ListStateDescriptor:
    return ListStateDescriptor(f"rows {prolonged}")


def _table(prolonged: bool) -> MapStateDescriptor:
    return MapStateDescriptor(f"table {prolonged}")


def _order(prolonged: bool) -> OrderedMapStateDescriptor:
    return OrderedMapStateDescriptor(f"order {prolonged}", Types.LONG())
