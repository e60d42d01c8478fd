"""Journals give back every change, on top of whatever was held before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.backends.timeline.conftest import ALL, COUNT, HALVES, MANY, Place
from tidegate.backends.keyed import KeyedStore, OrderedMapStateDescriptor
from tidegate.backends.keyed.journal import Cause
from tidegate.backends.spi import KeyedHandle
from tidegate.backends.timeline import (
    changes,
    damage,
    defects,
    key_of,
    mutations,
    of_keys,
    records,
    sub_of,
    value_of,
)
from tidegate.elements import RecordOrigin
from tidegate.errors import StateCorruptError
from tidegate.ids import CheckpointId
from tidegate.keys import key_bytes
from tidegate.types import Types

Told = list[tuple[str, str, Any, Any, Any]]


def at(position: int) -> RecordOrigin:
    return RecordOrigin("orders", "part-0", position)


def journaled(place: Place, *before: KeyedHandle) -> KeyedStore:
    return KeyedStore(place.backend, ALL, ALL.last, before, place.context(), journaled=True)


def first(store: KeyedStore) -> None:
    for position, (key, amount) in enumerate([("ann", 1), ("bob", 5), ("ann", 2)]):
        store.bind(key)
        count = store.state(COUNT)
        count.update((count.value() or 0) + amount)
        store.note(at(position))


def second(store: KeyedStore) -> None:
    store.bind("ann")
    store.state(MANY).add("x")
    store.state(COUNT).update(4)
    store.note(at(3))
    store.bind("ann")
    store.state(COUNT).clear()
    store.note(None)


def told(found: list[tuple[Any, Cause | None]]) -> Told:
    return [
        (
            key_of(change.key),
            change.state.name,
            sub_of(change.state, change.sub),
            change.after and value_of(change.state, change.after),
            cause.position if isinstance(cause, RecordOrigin) else None,
        )
        for change, cause in found
    ]


FIRST: Told = [("ann", "count", None, 1, 0), ("bob", "count", None, 5, 1), ("ann", "count", None, 3, 2)]
SECOND: Told = [
    ("ann", "count", None, 4, 3),
    ("ann", "many", 0, "x", 3),
    ("ann", "count", None, None, None),
]


def test_changes_of_an_ordered_map_are_told_by_its_keys(place: Place) -> None:
    by_time = OrderedMapStateDescriptor("by time", Types.LONG(), Types.STRING())
    store = journaled(place)
    try:
        store.bind("ann")
        for position, time in enumerate((300, -5)):
            store.state(by_time).put(time, f"at {time}")
            store.note(at(position))
        store.state(by_time).remove_range(None, 0)
        store.note(at(2))
        handle = store.snapshot(CheckpointId(1), None).finish()
    finally:
        store.close()

    assert told(list(mutations([], handle, place.context()))) == [
        ("ann", "by time", 300, "at 300", 0),
        ("ann", "by time", -5, "at -5", 1),
        ("ann", "by time", -5, None, 2),
    ]
    assert list(damage(handle, place.files)) == []
    assert list(defects(handle, ALL.last, place.context(), 0)) == []


def test_every_change_is_told_in_order_with_what_made_it(place: Place) -> None:
    store = journaled(place)
    first(store)
    one = store.snapshot(CheckpointId(1), None).finish()
    second(store)
    two = store.snapshot(CheckpointId(2), CheckpointId(1)).finish()
    store.close()

    assert told(list(mutations((), one, place.context()))) == FIRST
    assert told(list(mutations([one], two, place.context()))) == SECOND
    wanted = of_keys([key_bytes("bob")], ALL.last)
    assert told(list(mutations((), one, place.context(), wanted))) == FIRST[1:2]


@pytest.mark.parametrize("apart", [False, True], ids=["one handle", "two handles"])
def test_states_may_have_had_other_places_before(place: Place, apart: bool) -> None:
    """What was held before was written by subtasks that declared their states in another order."""

    def other_order(store: KeyedStore) -> None:
        store.state(MANY)
        first(store)

    (before,) = place.taken([other_order])
    handles = [msgspec.structs.replace(before, key_groups=half) for half in HALVES] if apart else [before]
    store = KeyedStore(place.backend, ALL, ALL.last, [], place.context(), journaled=True)
    store.state(COUNT)
    second(store)
    after = store.snapshot(CheckpointId(1), None).finish()
    store.close()

    found = list(mutations(handles, after, place.context()))

    assert told(found) == SECOND
    assert found[0][0].before is not None
    assert value_of(found[0][0].state, found[0][0].before) == 3


def test_what_the_journal_comes_to_is_what_the_checkpoint_holds(place: Place) -> None:
    store = journaled(place)
    first(store)
    one = store.snapshot(CheckpointId(1), None).finish()
    second(store)
    two = store.snapshot(CheckpointId(2), CheckpointId(1)).finish()
    store.close()

    net = list(changes(records([one], place.context()), records([two], place.context())))
    last = {
        (each.state.name, each.key, each.sub): each.after
        for each, _ in mutations([one], two, place.context())
    }

    assert {(each.state.name, each.key, each.sub): each.after for each in net} == last


def test_a_damaged_journal_is_named_and_keeps_nobody_from_reading_the_state(place: Place) -> None:
    store = journaled(place)
    first(store)
    one = store.snapshot(CheckpointId(1), None).finish()
    store.close()
    journal: Any = one.journal
    place.storage.blobs.put(journal.name, b"x" * journal.size)

    assert [name for name, _ in damage(one, place.files)] == [journal.name]
    with pytest.raises(StateCorruptError, match=f"state file {journal.name} is damaged"):
        list(mutations((), one, place.context()))
    assert len(list(records([one], place.context()))) == 2
