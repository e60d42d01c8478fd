"""States that expire, on every backend: what is seen, and what prolongs a life."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.backends.keyed.conftest import Open
from tests.unit.backends.keyed.expiring import READS, checkpoint, living
from tidegate.backends.keyed import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.backends.keyed.ttl import StateTtlConfig
from tidegate.clock import ManualClock
from tidegate.common import Duration, Time
from tidegate.errors import ConfigError, RecordError, StateFormatError
from tidegate.keys import KeyGroupRange
from tidegate.types import TypeInformation, Types


@pytest.mark.spec("002/AX-35")
@pytest.mark.parametrize("settled", [False, True], ids=["in one epoch", "over barriers"])
def test_a_read_prolongs_a_life_only_if_asked_to(
    reopen: Open, clock: ManualClock, kind: Any, *, settled: bool
) -> None:
    describe, write, read = kind
    for updates, expected in (("update_ttl_on_create_and_write", None), ("update_ttl_on_read_and_write", 7)):
        store = reopen()
        state = store.state(living(describe(), updates))
        store.bind("a")
        write(state)
        clock.advance(900)
        assert read(state) == 7
        if settled:
            checkpoint(store)
        clock.advance(600)
        assert read(state) == expected


@pytest.mark.spec("002/AX-35")
def test_what_has_expired_is_seen_once_by_the_read_that_removes_it(
    reopen: Open, clock: ManualClock, kind: Any
) -> None:
    describe, write, read = kind
    store = reopen()
    state = store.state(
        living(describe(), "return_expired_if_not_cleaned_up", "disable_cleanup_in_background")
    )
    store.bind("a")
    write(state)
    clock.advance(1_500)
    assert store.current_key == "a"
    if read is READS["mutable value"][2]:
        assert state.value() == [7]
    else:
        assert read(state) == 7
    assert read(state) is None


MATRIX = [
    # what prolongs a life, what is shown; then what reads see 900, 600 and 1,500 ms after the write and each other
    ("update_ttl_on_create_and_write", "never_return_expired", [7, None, None]),
    ("update_ttl_on_create_and_write", "return_expired_if_not_cleaned_up", [7, 7, None]),
    ("update_ttl_on_read_and_write", "never_return_expired", [7, 7, None]),
    ("update_ttl_on_read_and_write", "return_expired_if_not_cleaned_up", [7, 7, 7]),
]


@pytest.mark.spec("004/AX-026")
@pytest.mark.parametrize(("updates", "shows", "seen"), MATRIX)
def test_expiry_what_prolongs_a_life_and_what_is_shown_combine(
    reopen: Open, clock: ManualClock, kind: Any, updates: str, shows: str, seen: list[int | None]
) -> None:
    describe, write, read = kind
    store = reopen()
    state = store.state(living(describe(), updates, shows, "disable_cleanup_in_background"))
    store.bind("a")
    write(state)
    found = []
    for wait in (900, 600, 1_500):
        clock.advance(wait)
        # Reading a mutable value looks twice, and what has expired is shown only once.
        value = state.value() if read is READS["mutable value"][2] else read(state)
        found.append(value[0] if isinstance(value, list) else value)
    assert found == seen
    assert read(state) is None


def test_a_life_that_a_read_prolonged_is_in_the_next_checkpoint(
    reopen: Open, clock: ManualClock, kind: Any
) -> None:
    describe, write, read = kind
    store = reopen()
    state = store.state(living(describe(), "update_ttl_on_read_and_write"))
    store.bind("a")
    write(state)
    checkpoint(store)
    clock.advance(900)
    assert read(state) == 7
    handle = checkpoint(store, 2, confirmed=1)
    clock.advance(900)
    restored = reopen(handle)
    restored.bind("a")
    assert read(restored.state(living(describe(), "update_ttl_on_read_and_write"))) == 7


def test_lives_end_with_the_milliseconds_that_functions_are_told(open_store: Open) -> None:
    now = 1_000_900_000
    store = open_store(now_ns=lambda: now)
    value = store.state(living(ValueStateDescriptor("value")))
    elements = store.state(living(ListStateDescriptor("elements")))
    entries = store.state(living(MapStateDescriptor("entries")))
    store.bind("a")
    value.update(1)
    elements.add(2)
    entries.put("x", 3)
    now = 1_999_999_999
    assert (value.value(), elements.get(), entries.get("x")) == (1, [2], 3)
    now = 2_000_000_000
    assert (value.value(), elements.get(), entries.get("x")) == (None, [], None)


def test_lives_go_on_over_a_restore(reopen: Open, clock: ManualClock, kind: Any) -> None:
    describe, write, read = kind
    store = reopen()
    store.bind("a")
    write(store.state(living(describe())))
    handle = checkpoint(store)
    for waited, expected in ((900, 7), (100, None)):
        clock.advance(waited)
        restored = reopen(handle)
        restored.bind("a")
        assert read(restored.state(living(describe()))) == expected


def test_elements_and_entries_expire_by_their_own(reopen: Open, clock: ManualClock) -> None:
    store = reopen()
    elements = store.state(living(ListStateDescriptor("elements")))
    entries = store.state(living(MapStateDescriptor("entries")))
    store.bind("a")
    for number in range(3):
        elements.add(number)
        entries.put(number, [number])
        clock.advance(400)
    assert elements.get() == [1, 2]
    assert dict(entries.items()) == {1: [1], 2: [2]}
    assert sorted(entries.keys()) == [1, 2]
    assert 0 not in entries
    assert 1 in entries
    clock.advance(600)
    assert elements.get() == []
    assert entries.is_empty()


def test_changing_a_value_in_place_counts_and_prolongs_nothing(reopen: Open, clock: ManualClock) -> None:
    store = reopen()
    value = store.state(living(ValueStateDescriptor("value", default=[])))
    elements = store.state(living(ListStateDescriptor("elements")))
    store.bind("a")
    value.value().append(1)
    elements.add([])
    elements.get()[0].append(2)
    clock.advance(900)
    value.value().append(3)
    handle = checkpoint(store)
    assert (value.value(), elements.get()) == ([1, 3], [[2]])
    restored = reopen(handle)
    restored.bind("a")
    assert restored.state(living(ValueStateDescriptor("value", default=[]))).value() == [1, 3]
    clock.advance(100)
    assert restored.state(living(ValueStateDescriptor("value", default=[]))).value() == []
    assert restored.state(living(ListStateDescriptor("elements"))).get() == []


@pytest.mark.parametrize("switched_on", [True, False], ids=["on", "off"])
@pytest.mark.spec("002/AX-36")
def test_time_to_live_cannot_be_switched_for_stored_state(
    reopen: Open, kind: Any, *, switched_on: bool
) -> None:
    describe, write, _ = kind
    store = reopen()
    store.bind("a")
    write(store.state(describe() if switched_on else living(describe())))
    restored = reopen(checkpoint(store))
    with pytest.raises(
        StateFormatError,
        match=r"state 'seen' was stored with another type; stored as .*, the program declares .*expiring"
        if switched_on
        else r"stored as .*expiring.*, the program declares",
    ):
        restored.state(living(describe()) if switched_on else describe())


def test_how_long_values_live_may_change_over_a_restore(reopen: Open, clock: ManualClock) -> None:
    store = reopen()
    store.bind("a")
    store.state(living(ValueStateDescriptor("seen"))).update(7)
    handle = checkpoint(store)
    clock.advance(1_500)
    longer = ValueStateDescriptor("seen")
    longer.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_seconds(2)).build())
    restored = reopen(handle)
    restored.bind("a")
    assert restored.state(longer).value() == 7


@pytest.mark.parametrize("optional", [None, Types.OPTIONAL(Types.LONG())], ids=["untyped", "optional"])
def test_none_is_an_entry_and_an_element_like_any_other_where_the_type_has_it(
    reopen: Open, clock: ManualClock, optional: TypeInformation | None
) -> None:
    store = reopen()
    store.bind("a")
    store.state(living(MapStateDescriptor("entries", None, optional))).put("x", None)
    store.state(living(ListStateDescriptor("elements", optional))).add(None)
    again = reopen(checkpoint(store))
    again.bind("a")
    entries = again.state(living(MapStateDescriptor("entries", None, optional)))
    elements = again.state(living(ListStateDescriptor("elements", optional)))
    assert ("x" in entries, entries.get("x"), elements.get()) == (True, None, [None])
    clock.advance(1_000)
    assert ("x" in entries, elements.get()) == (False, [])
    with pytest.raises(RecordError, match="got NoneType None; expected long"):
        again.state(living(MapStateDescriptor("numbers", None, Types.LONG()))).put("x", None)


def test_lives_go_on_at_another_parallelism(reopen: Open, clock: ManualClock, kind: Any) -> None:
    describe, write, read = kind
    store = reopen()
    state = store.state(living(describe()))
    for number in range(6):
        if number == 3:
            clock.advance(500)
        store.bind(number)
        write(state)
    handle = checkpoint(store)
    clock.advance(500)
    seen = {}
    for part in (KeyGroupRange(0, 3), KeyGroupRange(3, 5), KeyGroupRange(5, 8)):
        piece = reopen(handle, key_groups=part)
        state = piece.state(living(describe()))
        for number in list(piece.keys("seen")):
            piece.bind(number)
            seen[number] = read(state)
    assert seen == {0: None, 1: None, 2: None, 3: 7, 4: 7, 5: 7}


def test_a_life_is_refused_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"time to live is .*; expected a Time or Duration"):
        StateTtlConfig.new_builder(Time.milliseconds(0)).build()
    with pytest.raises(ConfigError, match=r"time to live is 5; expected a Time or Duration"):
        StateTtlConfig.new_builder(5).build()  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cleanup_size is 0; expected at least 1"):
        StateTtlConfig.new_builder(Time.seconds(1)).cleanup_incrementally(0, False)
    with pytest.raises(ConfigError, match="state 'seen': time to live is 5; expected a StateTtl"):
        ValueStateDescriptor("seen").enable_time_to_live(5)  # type: ignore[arg-type]


def test_a_disabled_configuration_is_as_good_as_none() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1))
    config = builder.set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    descriptor = ValueStateDescriptor("seen")
    descriptor.enable_time_to_live(config)
    assert not config.is_enabled()
    assert descriptor == ValueStateDescriptor("seen")
