"""Native state, written in canonical form and restored from it, is the same entries byte by byte."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.backends.savepoint.conftest import ALL, MAX_PARALLELISM, Place
from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.heap import HeapBackend
from tidegate.backends.keyed import (
    AggregatingStateDescriptor,
    KeyedStore,
    ListStateDescriptor,
    MapStateDescriptor,
    OrderedMapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.list_state import CHUNK_ITEMS
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.savepoint.base import regrouped
from tidegate.backends.spi import Backend, Timer
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange, key_bytes, key_group
from tidegate.types import Types

BACKENDS = [HeapBackend(), FilesystemBackend(), RocksDBBackend()]


class Mean:
    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]


COUNT = ValueStateDescriptor("count", Types.LONG())
ANY = ValueStateDescriptor("any/thing = %")
LIST = ListStateDescriptor("list", Types.STRING())
MAP = MapStateDescriptor("map", None, Types.LONG())
ORDERED = OrderedMapStateDescriptor(
    "ordered", Types.TUPLE([Types.DOUBLE(), Types.OPTIONAL(Types.STRING())]), Types.LONG()
)
LARGEST = ReducingStateDescriptor("largest", max, Types.LONG())
MEAN = AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))

plain_keys = st.one_of(st.text(max_size=4), st.integers(), st.binary(max_size=3))
keys = st.one_of(plain_keys, st.tuples(plain_keys, st.none()))
numbers = st.integers(-(2**63), 2**63 - 1)
ordered_keys = st.tuples(st.floats(allow_nan=False), st.none() | st.text(max_size=3))
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(max_size=3),
        st.binary(max_size=3),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.sets(st.integers(0, 3)),
        st.dictionaries(st.text(max_size=2), inner, max_size=2),
        st.dictionaries(st.integers(0, 3), inner, max_size=2),
    ),
    max_leaves=4,
)
operations = st.one_of(
    st.tuples(st.just("count"), numbers),
    st.tuples(st.just("any"), values),
    st.tuples(st.just("list"), st.lists(st.text(max_size=3), max_size=3)),
    st.tuples(st.just("long list"), st.integers(CHUNK_ITEMS - 1, 3 * CHUNK_ITEMS)),
    st.tuples(st.just("map"), st.tuples(plain_keys, numbers)),
    st.tuples(st.just("ordered"), st.tuples(ordered_keys, numbers)),
    st.tuples(st.just("largest"), numbers),
    st.tuples(st.just("mean"), st.integers(0, 9)),
    st.tuples(st.just("event"), numbers),
    st.tuples(st.just("processing"), numbers),
)
histories = st.lists(
    st.tuples(keys, st.sampled_from([None, b"w", b"\0w", b"x" * 9]), operations), max_size=25
)


def perform(store: KeyedStore, key: Any, namespace: bytes | None, operation: tuple[str, Any]) -> None:
    name, given = operation
    inside = namespace is not None

    def state(descriptor: Any) -> Any:
        return store.state(descriptor, namespaced=inside)

    store.bind(key)
    if namespace is not None:
        store.bind_in(key, namespace)
    match name:
        case "count":
            state(COUNT).update(given)
        case "any":
            state(ANY).update(given)
        case "list":
            state(LIST).add_all(given)
        case "long list":
            state(LIST).add_all(map(str, range(given)))
        case "map":
            state(MAP).put(*given)
        case "ordered":
            state(ORDERED).put(*given)
        case "largest":
            state(LARGEST).add(given)
        case "mean":
            state(MEAN).add(given)
        case "event":
            store.event_timers.register(Timer(given, key, namespace or b""))
        case "processing":
            store.processing_timers.register(Timer(given, key, namespace or b""))


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


@pytest.fixture(scope="module", params=BACKENDS, ids=lambda backend: backend.name)
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Backend, Path]:
    return request.param, tmp_path_factory.mktemp("identity")


@settings(max_examples=25, deadline=None)
@given(history=histories, parts=st.sampled_from([1, 3]))
def test_native_to_canonical_to_native_is_the_identity(
    root: tuple[Backend, Path], history: list[tuple[Any, bytes | None, tuple[str, Any]]], parts: int
) -> None:
    place = Place(*root)

    def change(store: KeyedStore) -> None:
        for key, namespace, operation in history:
            perform(store, key, namespace, operation)
            store.end_batch()

    native = place.taken(change)
    canonical = place.write(native, parts=parts)
    assert [handle.key_groups for handle in canonical][-1].last == MAX_PARALLELISM
    assert place.entries(*canonical) == place.entries(native)
    again = place.write(*canonical)
    assert place.entries(*again) == place.entries(native)


def test_what_one_backend_wrote_every_other_one_opens(place: Place, tmp_path: Path) -> None:
    def change(store: KeyedStore) -> None:
        for key in ("ada", "bob", 7, ("t", 1)):
            for operation in (("count", 5), ("list", ["a", "b"]), ("map", ("x", 1)), ("event", 10)):
                perform(store, key, None, operation)
            for number, name in ((2.0, "b"), (-1.5, None), (2.0, "a")):
                perform(store, key, None, ("ordered", ((number, name), 1)))

    canonical = place.write(place.taken(change), parts=2)
    for backend in BACKENDS:
        place.backend = backend
        store = KeyedStore(backend, ALL, MAX_PARALLELISM, canonical, place.context())
        store.bind(("t", 1))
        assert store.state(COUNT).value() == 5
        assert store.state(LIST).get() == ["a", "b"]
        assert dict(store.state(MAP).items()) == {"x": 1}
        assert list(store.state(ORDERED).keys()) == [(-1.5, None), (2.0, "a"), (2.0, "b")]
        assert {timer.key for timer in store.event_timers.due(10)} == {"ada", "bob", 7, ("t", 1)}
        first = store.snapshot(CheckpointId(2), None).finish()
        store.close()
        # Nothing of a savepoint is referred to by the first checkpoint after it.
        assert {chunk for handle in canonical for chunk in handle.chunks}.isdisjoint(first.chunks)


def test_max_parallelism_changes_with_the_savepoint(place: Place) -> None:
    names = [f"user-{number}" for number in range(100)]

    def change(store: KeyedStore) -> None:
        for name in names:
            perform(store, name, None, ("count", len(name)))
            perform(store, name, b"w", ("long list", 70))

    canonical = place.write(place.taken(change), parts=2)
    wider = regrouped(canonical, 32)
    found: set[str] = set()
    for part in (KeyGroupRange(0, 11), KeyGroupRange(11, 32)):
        store = KeyedStore(place.backend, part, 32, [wider], place.context())
        mine = [name for name in names if key_group(key_bytes(name), 32) in part]
        for name in mine:
            store.bind(name)
            assert store.state(COUNT).value() == len(name)
            store.bind_in(name, b"w")
            assert store.state(LIST, namespaced=True).get() == [str(number) for number in range(70)]
        assert set(store.keys("count")) == set(mine)
        found.update(mine)
        store.close()
    assert found == set(names)


def test_an_element_changed_in_place_is_kept_although_chunks_differ(place: Place) -> None:
    texts = ListStateDescriptor("texts")

    def change(store: KeyedStore) -> None:
        store.bind("a")
        store.state(texts).add_all([[number] for number in range(CHUNK_ITEMS + 1)])
        store.snapshot(CheckpointId(0), None).discard()
        store.state(texts).get()[0].append("x" * 5_000)

    canonical = place.write(place.taken(change))
    store = KeyedStore(place.backend, ALL, MAX_PARALLELISM, canonical, place.context())
    store.bind("a")
    kept = store.state(texts).get()
    assert kept[0] == [0, "x" * 5_000]
    assert kept[1:] == [[number] for number in range(1, CHUNK_ITEMS + 1)]
    store.close()


def test_no_number_is_changed_on_the_way(place: Place) -> None:
    odd = [math.inf, -0.0, 5e-324, 2**63, -(2**63), 2**80, True, 1, 1.0]

    def change(store: KeyedStore) -> None:
        for number, value in enumerate(odd):
            perform(store, number, None, ("any", value))

    canonical = place.write(place.taken(change))
    store = KeyedStore(place.backend, ALL, MAX_PARALLELISM, canonical, place.context())
    for number, value in enumerate(odd):
        store.bind(number)
        kept = store.state(ANY).value()
        assert (type(kept), repr(kept)) == (type(value), repr(value))
    store.close()
