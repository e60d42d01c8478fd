"""Ordered maps: what they ask of a backend, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.keyed import (
    KeyedStore,
    MapStateDescriptor,
    OrderedMapStateDescriptor,
)
from tidegate.backends.keyed.ordered_state import OrderedMapState
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.spi import Backend, BackendContext, KeyedHandle
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.errors import ConfigError, RecordError, StateFormatError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.types import Types

BY_TIME = OrderedMapStateDescriptor("by time", Types.LONG(), Types.STRING())
MAP = MapStateDescriptor("map", Types.LONG(), Types.STRING())
FILES = StorageFiles(MemoryStorage().blobs, "run", inline_threshold=0)

Open = Callable[..., KeyedStore]


@pytest.fixture(params=[FilesystemBackend(), RocksDBBackend()], ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    found: Backend = request.param
    return found


@pytest.fixture
def opened(backend: Backend, tmp_path: Path) -> Iterator[Open]:
    stores: list[KeyedStore] = []

    def open_store(*handles: KeyedHandle) -> KeyedStore:
        context = BackendContext(Path(mkdtemp(dir=tmp_path)), FILES, {})
        stores.append(KeyedStore(backend, KeyGroupRange(0, 8), 8, handles, context))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def filled(opened: Open, count: int, descriptor: MapStateDescriptor = BY_TIME) -> KeyedStore:
    """A store that was opened from a map of so many entries."""
    store = opened()
    store.bind("ada")
    store.state(descriptor).put_all({number: str(number) for number in range(count)})
    handle = store.snapshot(CheckpointId(1), None).finish()
    again = opened(handle)
    again.bind("ada")
    return again


def asked(store: KeyedStore, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """How often the materialisation of a store is asked, and for how many entries."""
    calls: list[tuple[str, int]] = []
    inner = store._materialisation
    scan, get_many = inner.scan, inner.get_many

    def counted_scan(*given: Any, **named: Any) -> Any:
        found = list(scan(*given, **named))
        calls.append(("scan", len(found)))
        return iter(found)

    def counted_get(addresses: Any) -> Any:
        calls.append(("get", len(addresses)))
        return get_many(addresses)

    monkeypatch.setattr(inner, "scan", counted_scan)
    monkeypatch.setattr(inner, "get_many", counted_get)
    return calls


def test_a_small_map_is_read_once(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(opened, 20)
    state: OrderedMapState[int, str] = store.state(BY_TIME)
    calls = asked(store, monkeypatch)
    for _ in range(3):
        assert state.last() == (19, "19")
        assert state.first() == (0, "0")
        assert [key for key, _ in state.range(5, 8)] == [5, 6, 7]
        assert state.get(7) == "7"
        assert state.get(99) is None
        store.snapshot(CheckpointId(2), None).discard()
        store.bind("ada")
    assert calls == [("scan", 20)]


def test_the_first_of_a_large_map_costs_a_few_entries(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(opened, 5_000)
    state: OrderedMapState[int, str] = store.state(BY_TIME)
    calls = asked(store, monkeypatch)
    assert state.first() == (0, "0")
    assert state.last() == (4_999, "4999")
    assert next(state.range(2_500)) == (2_500, "2500")
    assert sum(count for _, count in calls) < 200


def test_who_takes_entries_from_the_front_meets_none_again(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(opened, 2_000)
    state: OrderedMapState[int, str] = store.state(BY_TIME)
    calls = asked(store, monkeypatch)
    for number in range(900):
        assert state.first() == (number, str(number))
        state.remove(number)
    assert sum(count for _, count in calls) < 1_000


@pytest.mark.parametrize("descriptor", [MAP, BY_TIME], ids=["map", "ordered map"])
def test_the_entries_of_a_batch_are_read_at_once(
    opened: Open, monkeypatch: pytest.MonkeyPatch, descriptor: MapStateDescriptor
) -> None:
    store = filled(opened, 200, descriptor)
    state = store.state(descriptor)
    state.put(3, "new")
    state.remove(4)
    calls = asked(store, monkeypatch)
    wanted = [3, 4, 5, 150, 999, 5]
    rows = store.prefetch(["ada"] * len(wanted), {state: wanted})
    assert [row.key for row in rows] == ["ada"] * len(wanted)
    assert [state.get(number) for number in wanted] == ["new", None, "5", "150", None, "5"]
    state.put(150, "changed")
    state.remove(5)
    assert [call for call in calls if call[1]] == [("get", 4)]
    assert len(list(state.items())) == 198


def test_entries_of_many_keys_and_maps_are_read_at_once(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened()
    for key in ("ada", "bob"):
        store.bind(key)
        store.state(MAP).put_all({1: f"{key} 1", 2: f"{key} 2"})
        store.state(BY_TIME).put_all({1: f"{key} first", 2: f"{key} second"})
    again = opened(store.snapshot(CheckpointId(1), None).finish())
    table, by_time = again.state(MAP), again.state(BY_TIME)
    calls = asked(again, monkeypatch)
    again.prefetch(["ada", "bob", "cyd"], {table: [1, 2, 1], by_time: [2, 1, 1]})
    found = []
    for key in ("ada", "bob", "cyd"):
        again.bind(key)
        found += [table.get(1 if key == "ada" else 2), by_time.get(2 if key == "ada" else 1)]
    assert found == ["ada 1", "ada second", "bob 2", "bob first", None, None]
    assert calls == [("get", 3), ("get", 4)]


def test_a_key_type_without_order_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"state 'x' is an ordered map; keys of type list<long> have no order"
    ):
        OrderedMapStateDescriptor("x", Types.LIST(Types.LONG()))
    with pytest.raises(ConfigError, match=r"state 'x' is an ordered map; got no key type"):
        OrderedMapStateDescriptor("x")


def test_a_key_that_does_not_fit_is_refused(opened: Open) -> None:
    store = opened()
    store.bind("ada")
    state = store.state(BY_TIME)
    for use in (state.get, state.range, state.remove_range):
        with pytest.raises(
            RecordError, match="key does not have its declared type; got str 'x'; expected long"
        ):
            use("x")


@pytest.mark.parametrize(
    "other",
    [
        OrderedMapStateDescriptor("by time", Types.STRING(), Types.STRING()),
        MapStateDescriptor("by time", Types.LONG(), Types.STRING()),
    ],
    ids=["of other keys", "without order"],
)
def test_a_stored_ordered_map_stays_one(opened: Open, other: MapStateDescriptor) -> None:
    store = filled(opened, 3)
    with pytest.raises(StateFormatError, match="stored as ordered_map of int to str, the program declares"):
        store.state(other)


def test_the_type_of_its_values_can_change(opened: Open) -> None:
    numbers = OrderedMapStateDescriptor("n", Types.LONG(), Types.LONG())
    store = opened()
    store.bind("ada")
    store.state(numbers).put(-5, 1)
    again = opened(store.snapshot(CheckpointId(1), None).finish())
    again.bind("ada")
    wider = OrderedMapStateDescriptor("n", Types.LONG(), Types.DOUBLE())
    assert list(again.state(wider).items()) == [(-5, 1.0)]
