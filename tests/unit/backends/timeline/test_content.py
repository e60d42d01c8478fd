"""What handles hold is the same whether a backend opens them or only the timeline reads them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.backends.timeline.conftest import ALL, COUNT, HALVES, MANY, NAMED, Place
from tidegate.backends.keyed import KeyedStore
from tidegate.backends.keyed.address import range_bounds
from tidegate.backends.keyed.restore import restore
from tidegate.backends.spi import KeyedHandle, Timer
from tidegate.backends.timeline import changes, key_of, of_keys, records, sub_of, value_of
from tidegate.backends.timeline.content import entries
from tidegate.keys import key_bytes

Model = dict[tuple[Any, ...], Any]

KEYS = ["ann", "bob", "cyd", "a\0b"]
operations = st.one_of(
    st.tuples(st.just("count"), st.sampled_from(KEYS), st.integers(0, 3)),
    st.tuples(st.just("clear"), st.sampled_from(KEYS)),
    st.tuples(st.just("add"), st.sampled_from(KEYS), st.text(max_size=2)),
    st.tuples(st.just("empty"), st.sampled_from(KEYS)),
    st.tuples(st.just("put"), st.sampled_from(KEYS), st.sampled_from(["x", "y"]), st.integers(0, 3)),
    st.tuples(st.just("remove"), st.sampled_from(KEYS), st.sampled_from(["x", "y"])),
    st.tuples(st.just("timer"), st.sampled_from(KEYS), st.integers(-2, 2)),
    st.tuples(st.just("untimer"), st.sampled_from(KEYS), st.integers(-2, 2)),
)


def do(store: KeyedStore, model: Model, operation: tuple[Any, ...]) -> None:
    """Change a store and a model of it alike."""
    what, key, *rest = operation
    count, many, named = (store.state(descriptor) for descriptor in (COUNT, MANY, NAMED))
    store.bind(key)
    match what:
        case "count":
            count.update(rest[0])
            model["count", key, None] = rest[0]
        case "clear":
            count.clear()
            model.pop(("count", key, None), None)
        case "add":
            many.add(rest[0])
            model["many", key, len(many.get()) - 1] = rest[0]
        case "empty":
            many.clear()
            for place in [place for place in model if place[:2] == ("many", key)]:
                del model[place]
        case "put":
            named.put(*rest)
            model["named", key, rest[0]] = rest[1]
        case "remove":
            named.remove(rest[0])
            model.pop(("named", key, rest[0]), None)
        case "timer":
            store.event_timers.register(Timer(rest[0], key))
            model["event", key, rest[0]] = None
        case "untimer":
            store.event_timers.delete(Timer(rest[0], key))
            model.pop(("event", key, rest[0]), None)
    store.end_batch()


def read(place: Place, handles: list[KeyedHandle], *keys: str) -> Model:
    """What handles hold as the model has it, of some keys or of all."""
    wanted = of_keys([key_bytes(key) for key in keys], ALL.last) if keys else None
    return {
        (state.name, key_of(record.key), sub_of(state, record.sub)): value_of(state, record.value)
        for _, found in records(handles, place.context(), wanted)
        for state, held in found.items()
        for record in held
    }


@settings(max_examples=20)
@given(st.lists(st.lists(operations, max_size=8), min_size=1, max_size=4), st.booleans())
def test_every_epoch_is_read_as_it_was_and_history_tells_the_way_from_each_to_the_next(
    place: Place, plan: list[list[tuple[Any, ...]]], apart: bool
) -> None:
    model: Model = {}
    models: list[Model] = []

    def epoch(done: list[tuple[Any, ...]]) -> Any:
        def change(store: KeyedStore) -> None:
            for operation in done:
                do(store, model, operation)
            models.append(dict(model))

        return change

    take = place.taken_apart if apart else place.taken
    handles = take([epoch(done) for done in plan])

    told: Model = {}
    before: list[KeyedHandle] = []
    for handle, expected in zip(handles, models, strict=True):
        assert read(place, [handle]) == expected
        assert read(place, [handle], "ann") == {at: held for at, held in expected.items() if at[1] == "ann"}
        for change in changes(records(before, place.context()), records([handle], place.context())):
            at = change.state.name, key_of(change.key), sub_of(change.state, change.sub)
            assert told.get(at) == (None if change.before is None else value_of(change.state, change.before))
            if change.after is None:
                del told[at]
            else:
                told[at] = value_of(change.state, change.after)
        assert told == expected
        before = [handle]


def fill(store: KeyedStore) -> None:
    for number in range(40):
        store.bind(number)
        store.state(COUNT).update(number)
        store.state(MANY).add_all([f"{number}-{part}" for part in range(number * 5)])
        store.event_timers.register(Timer(number, number))


def test_reading_gives_what_opening_gives(place: Place) -> None:
    (handle,) = place.taken_apart([fill])
    opened = restore(place.backend, ALL, [handle], place.context()).materialisation
    try:
        assert list(entries(handle, place.context())) == list(opened.scan(*range_bounds(ALL)))
    finally:
        opened.close()


def test_handles_that_share_a_base_are_read_for_their_own_key_groups_only(place: Place) -> None:
    (handle,) = place.taken_apart([fill])
    halves = [msgspec.structs.replace(handle, key_groups=half) for half in HALVES]

    assert read(place, halves) == read(place, [handle])
    groups = [group for group, _ in records(halves, place.context())]
    assert groups == sorted(set(groups))


@pytest.mark.parametrize(
    ("left", "right"), [("ann", "bob"), ("bob", "ann")], ids=["first key goes", "last key goes"]
)
def test_contents_of_other_key_groups_are_all_different(place: Place, left: str, right: str) -> None:
    def of(key: str) -> Any:
        return lambda store: (store.bind(key), store.state(COUNT).update(1))

    (one,), (other,) = place.taken([of(left)]), place.taken([of(right)])
    found = changes(records([one], place.context()), records([other], place.context()))

    assert {(key_of(each.key), each.before is None, each.after is None) for each in found} == {
        (left, False, True),
        (right, True, False),
    }
