"""Stored bytes as values, without the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tidegate.backends.keyed import StateTtlConfig, ValueStateDescriptor
from tidegate.backends.keyed.table import StateTable
from tidegate.backends.timeline import Opaque, key_of, keys_of, spelled, value_of
from tidegate.common import Time
from tidegate.keys import canonical, key_bytes
from tidegate.serde import PickledValueWarning, codec_for
from tidegate.types import Types


@dataclass
class Order:
    cents: int


def stored(descriptor: ValueStateDescriptor, value: Any) -> tuple[Any, bytes]:
    return StateTable().add(descriptor), codec_for(descriptor.stored_type).encode(value)


@pytest.mark.parametrize(
    ("type_info", "value", "shown"),
    [
        (Types.LONG(), 7, 7),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), ("a", 1), ["a", 1]),
        (None, {("a", 1): {2}}, {("a", 1): {2}}),
    ],
    ids=["number", "declared tuple", "anything"],
)
def test_values_come_back_as_plain_ones(type_info: Any, value: Any, shown: Any) -> None:
    assert value_of(*stored(ValueStateDescriptor("held", type_info), value)) == shown


def test_what_only_the_program_can_read_is_shown_by_its_size_and_nothing_is_unpickled() -> None:
    with pytest.warns(PickledValueWarning):
        state, data = stored(ValueStateDescriptor("held"), Order(5))

    assert value_of(state, data) == Opaque("self-describing", data)
    assert repr(value_of(state, data)) == f"<{len(data)} bytes of self-describing>"
    assert isinstance(
        value_of(*stored(ValueStateDescriptor("held", Types.PICKLED_BYTE_ARRAY()), [1])), Opaque
    )


def test_values_that_expire_are_shown_without_their_moment() -> None:
    descriptor = ValueStateDescriptor("held", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    state, data = stored(descriptor, 7)

    assert value_of(state, bytes(8) + data) == 7


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ann", "ann"),
        ("7", 7),
        ('"7"', "7"),
        ("('a', 1)", ("a", 1)),
        ("[1, true]", (1, True)),
        ("true", True),
        ("a b", "a b"),
        ("", ""),
    ],
)
def test_keys_are_spelled_as_python_or_json_or_as_themselves(text: str, value: Any) -> None:
    assert spelled(text) == value


def test_a_key_is_looked_for_under_the_bytes_of_every_type_that_python_calls_equal() -> None:
    assert keys_of(1.0) == {key_bytes(1), key_bytes(1.0), key_bytes(True)}
    assert keys_of(7) == {key_bytes(7), key_bytes(7.0)}
    assert keys_of("7") == {key_bytes("7")}


def test_a_key_whose_class_is_gone_is_shown_by_its_size() -> None:
    assert key_of(b"\xc1") == Opaque("key", b"\xc1")
    assert key_of(key_bytes(canonical(("a", 1)))) == ("a", 1)
