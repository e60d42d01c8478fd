"""States that are declared in another way after a restore: what is taken over, on every backend, and what is refused."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.backends.keyed.conftest import Open
from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.heap import HeapBackend
from tidegate.backends.keyed import (
    AggregatingStateDescriptor,
    KeyedStore,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.savepoint import write_keyed
from tidegate.backends.spi import Backend, BackendContext, KeyedHandle
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.clock import ManualClock
from tidegate.common import Time
from tidegate.errors import StateFormatError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.types import TypeInformation, Types

BACKENDS: dict[str, type[Backend]] = {
    "heap": HeapBackend,
    "filesystem": FilesystemBackend,
    "rocksdb": RocksDBBackend,
}


@pytest.fixture(params=list(BACKENDS.values()), ids=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Backend:
    made: Backend = request.param()
    return made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def reopen(open_store: Open, backend: Backend, clock: ManualClock) -> Open:
    """Opens stores over each backend that live by `clock`."""
    return functools.partial(open_store, backend=backend, now_ns=clock.now_ns)


@pytest.fixture(params=[False, True], ids=["checkpoint", "savepoint"])
def saved(
    request: pytest.FixtureRequest, backend: Backend, tmp_path: Path, storage: MemoryStorage
) -> Callable[[KeyedStore], tuple[KeyedHandle, ...]]:
    """The handles to restore a store from: those of a checkpoint, or those of a canonical savepoint."""

    def save(store: KeyedStore) -> tuple[KeyedHandle, ...]:
        handle = checkpoint(store)
        if not request.param:
            return (handle,)
        (tmp_path / "writing").mkdir()
        context = BackendContext(
            tmp_path / "writing", StorageFiles(storage.blobs, "run", inline_threshold=0), {}
        )
        return write_keyed(
            "accounts", (handle,), 8, backend, context, StorageFiles(storage.blobs, "savepoint")
        )

    return save


def checkpoint(store: KeyedStore, number: int = 1, confirmed: int | None = None) -> KeyedHandle:
    relied_on = None if confirmed is None else CheckpointId(confirmed)
    return store.snapshot(CheckpointId(number), relied_on).finish()


def _account(*fields: tuple[Any, ...]) -> TypeInformation:
    return Types.of(
        dataclasses.make_dataclass("Account", list(fields), frozen=True, namespace={"__module__": __name__})
    )


OLD = _account(("name", str), ("cents", int))
NEW = _account(("cents", float), ("currency", str, "EUR"))
WRONG = _account(("name", str), ("cents", str))


class Last:
    """Keeps the last value."""

    def create_accumulator(self) -> None:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


def largest(first: Any, second: Any) -> Any:
    return max(first, second, key=lambda account: account.cents)


def all_of(state: Any) -> list[Any]:
    return list(state.get())


KINDS: dict[str, tuple[Callable[[TypeInformation], StateDescriptor], str, Callable[[Any], list[Any]]]] = {
    "value": (lambda of: ValueStateDescriptor("held", of), "update", lambda state: [state.value()]),
    "list": (lambda of: ListStateDescriptor("held", of), "add", all_of),
    "map": (
        lambda of: MapStateDescriptor("held", Types.STRING(), of),
        "put",
        lambda state: [value for _, value in sorted(state.items())],
    ),
    "reducing": (lambda of: ReducingStateDescriptor("held", largest, of), "add", lambda state: [state.get()]),
    "aggregating": (
        lambda of: AggregatingStateDescriptor("held", Last(), of),
        "add",
        lambda state: [state.get()],
    ),
}


@pytest.fixture(params=list(KINDS.values()), ids=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def filled(store: KeyedStore, kind: Any, describe: Any, count: int = 100) -> None:
    """Some accounts of the old type under three keys, with another state beside them."""
    beside = store.state(ValueStateDescriptor("beside", Types.LONG()))
    state = store.state(describe)
    for key in range(3):
        store.bind(key)
        beside.update(key)
        for number in range(count):
            account = OLD.cls("ann", number)  # type: ignore[misc] # a record has a class
            getattr(state, kind[1])(*((f"{number:03}",) if kind[1] == "put" else ()), account)


def cents(kind: Any, state: Any) -> list[float]:
    return [account.cents for account in kind[2](state)]


EXPECTED = {"value": [99.0], "reducing": [99.0], "aggregating": [99.0]}


def test_fields_come_and_go_and_grow(reopen: Open, saved: Any, kind: Any) -> None:
    describe = kind[0]
    store = reopen()
    filled(store, kind, describe(OLD))
    expected = EXPECTED.get(describe(OLD).kind, [float(number) for number in range(100)])

    again = reopen(*saved(store))
    state = again.state(describe(NEW))
    for key in range(3):
        again.bind(key)
        assert cents(kind, state) == expected
        assert {(type(held), type(held.cents), held.currency) for held in kind[2](state)} == {
            (NEW.cls, float, "EUR")
        }
        assert again.state(ValueStateDescriptor("beside", Types.LONG())).value() == key

    parts = [
        reopen(checkpoint(again, 2), key_groups=part) for part in (KeyGroupRange(0, 3), KeyGroupRange(3, 8))
    ]
    states = [part.state(describe(NEW)) for part in parts]
    assert sorted(key for part in parts for key in part.keys("held")) == [0, 1, 2]
    for part, state in zip(parts, states, strict=True):
        for key in list(part.keys("held")):
            part.bind(key)
            assert cents(kind, state) == expected


def test_a_checkpoint_that_builds_on_the_old_one_holds_the_new_type(reopen: Open, kind: Any) -> None:
    describe = kind[0]
    store = reopen()
    filled(store, kind, describe(OLD), count=1)
    again = reopen(checkpoint(store))
    again.state(describe(NEW))

    third = reopen(checkpoint(again, 2, confirmed=1))
    third.bind(1)
    assert cents(kind, third.state(describe(NEW))) == [0.0]


def test_rows_that_were_read_before_the_state_was_asked_for_change_too(reopen: Open, kind: Any) -> None:
    describe = kind[0]
    store = reopen()
    filled(store, kind, describe(OLD), count=2)
    again = reopen(checkpoint(store))
    beside = again.state(ValueStateDescriptor("beside", Types.LONG()))
    again.bind(2)
    beside.update(beside.value() + 40)

    state = again.state(describe(NEW))

    assert cents(kind, state)[-1] == 1.0
    assert beside.value() == 42
    third = reopen(checkpoint(again, 2))
    third.bind(2)
    assert cents(kind, third.state(describe(NEW)))[-1] == 1.0
    assert third.state(ValueStateDescriptor("beside", Types.LONG())).value() == 42


def test_state_of_namespaces_changes_too(reopen: Open, saved: Any) -> None:
    store = reopen()
    state = store.state(ValueStateDescriptor("held", Types.LONG()), namespaced=True)
    store.bind_in("ann", b"w")
    state.update(7)
    again = reopen(*saved(store))
    again.bind_in("ann", b"w")
    assert repr(again.state(ValueStateDescriptor("held", Types.DOUBLE()), namespaced=True).value()) == "7.0"


def test_what_cannot_be_read_is_refused_by_state_field_and_types(reopen: Open, saved: Any, kind: Any) -> None:
    describe = kind[0]
    store = reopen()
    filled(store, kind, describe(OLD), count=1)
    handles = saved(store)
    with pytest.raises(
        StateFormatError,
        match=r"state 'held' was stored with another type; stored as .*cents: int.*, the program declares .*cents: str.*; "
        r"field cents: got string; expected long; declare the stored type",
    ):
        reopen(*handles).state(describe(WRONG))
    unchanged = reopen(*handles)
    unchanged.bind(1)
    assert cents(kind, unchanged.state(describe(OLD))) == [0]


def test_a_value_the_new_type_cannot_hold_is_refused(reopen: Open) -> None:
    store = reopen()
    store.bind("ann")
    store.state(ValueStateDescriptor("held", Types.LONG())).update(2**53 + 1)
    with pytest.raises(
        StateFormatError,
        match=r"state 'held': 9007199254740993 cannot be represented exactly as a float; .*; restore an older checkpoint with the program",
    ):
        reopen(checkpoint(store)).state(ValueStateDescriptor("held", Types.DOUBLE()))


def test_the_kind_of_a_state_cannot_change(reopen: Open) -> None:
    store = reopen()
    store.bind("ann")
    store.state(ListStateDescriptor("held", Types.LONG())).add(1)
    store.state(MapStateDescriptor("table", Types.LONG(), Types.LONG())).put(1, 1)
    again = reopen(checkpoint(store))
    with pytest.raises(StateFormatError, match="the kind of a state and the keys of its map cannot change"):
        again.state(ValueStateDescriptor("held", Types.LONG()))
    with pytest.raises(
        StateFormatError,
        match=r"stored as map of int to .*, the program declares map of str to .*the keys of its map cannot",
    ):
        again.state(MapStateDescriptor("table", Types.STRING(), Types.LONG()))


def living(descriptor: StateDescriptor, *, migrate: bool) -> StateDescriptor:
    builder = StateTtlConfig.new_builder(Time.seconds(1))
    descriptor.enable_time_to_live((builder.migrate_ttl() if migrate else builder).build())
    return descriptor


@pytest.mark.spec("002/AX-36")
def test_old_state_gets_a_time_to_live_only_if_asked_to(
    reopen: Open, clock: ManualClock, saved: Any, kind: Any
) -> None:
    describe = kind[0]
    store = reopen()
    filled(store, kind, describe(OLD), count=1)
    handles = saved(store)
    with pytest.raises(
        StateFormatError,
        match=r"stored values have no expiry time; set migrate_ttl\(\) of its StateTtlConfig",
    ):
        reopen(*handles).state(living(describe(NEW), migrate=False))

    clock.advance(5_000)
    again = reopen(*handles)
    state = again.state(living(describe(NEW), migrate=True))
    again.bind(1)
    clock.advance(999)
    assert cents(kind, state) == [0.0]
    clock.advance(1)
    assert [held for held in kind[2](state) if held is not None] == []


def test_state_that_expires_keeps_its_moment_when_its_type_changes(
    reopen: Open, clock: ManualClock, saved: Any, kind: Any
) -> None:
    describe = kind[0]
    store = reopen()
    filled(store, kind, living(describe(OLD), migrate=False), count=1)
    clock.advance(600)
    again = reopen(*saved(store))
    state = again.state(living(describe(NEW), migrate=False))
    again.bind(1)
    clock.advance(399)
    assert cents(kind, state) == [0.0]
    clock.advance(1)
    assert [held for held in kind[2](state) if held is not None] == []


def test_a_time_to_live_cannot_be_taken_away(reopen: Open, kind: Any) -> None:
    describe = kind[0]
    store = reopen()
    filled(store, kind, living(describe(OLD), migrate=True), count=1)
    with pytest.raises(StateFormatError, match="a time to live cannot be removed; set a long one"):
        reopen(checkpoint(store)).state(describe(OLD))
