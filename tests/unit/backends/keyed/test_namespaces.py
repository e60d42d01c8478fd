"""Rows of a key in a namespace, such as a window: apart from the key's own row, kept and forgotten like it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.backends.keyed import KeyedStore, ValueStateDescriptor
from tidegate.backends.keyed.descriptors import ListStateDescriptor
from tidegate.errors import ConfigError, InternalError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange, key_bytes, key_group
from tidegate.types import Types

Open = Callable[..., KeyedStore]

COUNT = ValueStateDescriptor("count", Types.LONG())
NUMBERS = ListStateDescriptor("numbers", Types.LONG())


@pytest.mark.spec("000/STATE-16")
def test_a_key_and_its_namespaces_hold_different_values_of_one_state(open_store: Open) -> None:
    store = open_store()
    own, inner = store.value_state(COUNT), store.value_state(COUNT, namespaced=True)
    store.bind("a")
    own.update(1)
    for namespace, value in ((b"x", 2), (b"y", 3)):
        store.bind_in("a", namespace)
        inner.update(value)

    store.bind("b")
    store.bind_in("a", b"x")

    assert (own.value(), inner.value()) == (None, 2)
    store.bind("a")
    store.bind_in("a", b"y")
    assert (own.value(), inner.value(), store.current_key) == (1, 3, "a")


def test_a_namespace_is_not_taken_for_a_key_that_is_a_tuple(open_store: Open) -> None:
    store = open_store()
    own, inner = store.value_state(COUNT), store.value_state(COUNT, namespaced=True)
    store.bind_in("a", b"x")
    inner.update(1)
    store.bind(("a", b"x"))

    assert own.value() is None


def test_namespaces_survive_checkpoint_eviction_and_restore(open_store: Open) -> None:
    store = open_store(cache_entries=1)
    inner = store.value_state(COUNT, namespaced=True)
    for number in range(10):
        store.bind_in("a", bytes([number]))
        inner.update(number)
        store.end_batch()
    handle = store.snapshot(CheckpointId(1), None).finish()

    again = open_store(handle)
    inner = again.value_state(COUNT, namespaced=True)
    found = []
    for number in range(10):
        again.bind_in("a", bytes([number]))
        found.append(inner.value())

    assert found == list(range(10))


def test_a_deleted_namespace_stays_deleted_after_a_restore_and_leaves_the_others(open_store: Open) -> None:
    store = open_store()
    inner = store.value_state(COUNT, namespaced=True)
    for namespace in (b"x", b"y"):
        store.bind_in("a", namespace)
        inner.update(7)
    first = store.snapshot(CheckpointId(1), None).finish()
    again = open_store(first)
    inner = again.value_state(COUNT, namespaced=True)
    again.delete_in("a", b"x")

    last = open_store(again.snapshot(CheckpointId(2), None).finish())
    inner = last.value_state(COUNT, namespaced=True)
    last.bind_in("a", b"x")
    assert inner.value() is None
    last.bind_in("a", b"y")
    assert inner.value() == 7


@pytest.mark.parametrize("asked_for", [True, False], ids=["declared", "undeclared"])
def test_a_deleted_namespace_takes_the_chunks_of_its_lists_along(open_store: Open, asked_for: bool) -> None:
    store = open_store()
    store.bind_in("a", b"x")
    store.state(NUMBERS, namespaced=True).add_all(range(100))
    restored = open_store(store.snapshot(CheckpointId(1), None).finish())
    if asked_for:
        restored.state(NUMBERS, namespaced=True)

    restored.delete_in("a", b"x")
    restored.snapshot(CheckpointId(2), None)

    assert list(restored._materialisation.scan(b"\0", b"\xff")) == []


def test_what_came_and_went_between_two_barriers_leaves_no_entry(open_store: Open) -> None:
    store = open_store()
    inner = store.value_state(COUNT, namespaced=True)
    store.bind_in("a", b"x")
    inner.update(1)
    store.delete_in("a", b"x")

    assert store.snapshot(CheckpointId(1), None).finish().segments == ()


def test_a_namespace_that_is_deleted_is_not_bound_any_more(open_store: Open) -> None:
    store = open_store()
    inner = store.value_state(COUNT, namespaced=True)
    store.delete_in("a", b"x")

    with pytest.raises(ConfigError, match="keyed state is used without a current key"):
        inner.value()


def test_a_namespace_of_a_key_of_another_subtask_is_refused(open_store: Open) -> None:
    group = key_group(key_bytes("a"), 8)
    store = open_store(key_groups=KeyGroupRange(group + 1, group + 2))

    with pytest.raises(InternalError, match=f"key group {group} is not assigned to this subtask"):
        store.bind_in("a", b"x")


def test_an_empty_namespace_is_refused_as_its_row_would_be_that_of_the_key(open_store: Open) -> None:
    store = open_store()
    with pytest.raises(
        InternalError, match="namespace of key 'a' is empty; got b''; expected at least one byte"
    ):
        store.bind_in("a", b"")
    with pytest.raises(InternalError, match="namespace of key 'a' is empty"):
        store.delete_in("a", b"")
