"""Names under which classes are persisted."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import pytest

from tidegate.classes import class_name, find_class, record_entry, register_class, registered
from tidegate.errors import ConfigError, RecordError, StateFormatError


@dataclass
class Person:
    id: int
    name: str

    def __post_init__(self) -> None:
        self.name = self.name.upper()


class Point(NamedTuple):
    x: int
    y: int


class Order(msgspec.Struct, frozen=True):
    n: int


class Outer:
    @dataclass
    class Inner:
        n: int


def test_a_class_is_found_by_module_and_qualified_name() -> None:
    for cls in (Person, Outer.Inner, decimal.Decimal):
        assert find_class(class_name(cls)) is cls
    assert class_name(Outer.Inner).endswith("test_classes:Outer.Inner")


def test_a_registered_class_is_found_by_its_name() -> None:
    assert register_class(Order, name="classes.order") is Order

    assert class_name(Order) == "classes.order"
    assert find_class("classes.order") is Order


def test_registering_again_is_harmless() -> None:
    register_class(Person, name="classes.person")
    register_class(Person, name="classes.person")

    assert registered(Person) is not None
    assert registered(Point) is None


def test_a_name_belongs_to_one_class() -> None:
    register_class(Point, name="classes.point")

    with pytest.raises(
        ConfigError,
        match=r"name 'classes.point' is already registered for .*Point.*; got .*Outer.*another name",
    ):
        register_class(Outer.Inner, name="classes.point")


@pytest.mark.parametrize("functions", [{}, {"encode": str}, {"decode": decimal.Decimal}])
def test_a_class_without_fields_needs_both_functions(functions: dict[str, type]) -> None:
    with pytest.raises(ConfigError, match="class Decimal has no fields; expected both encode and decode"):
        register_class(decimal.Decimal, **functions)  # type: ignore[arg-type]  # one is missing on purpose


def test_a_class_only_its_function_can_see_is_refused() -> None:
    class Local:
        pass

    with pytest.raises(
        RecordError, match=r"class .*<locals>\.Local cannot be found by its name; define it at the top"
    ):
        class_name(Local)


@pytest.mark.parametrize(
    "label", ["no.such.module:Thing", "decimal:Nothing", "decimal", "decimal:MAX_PREC", ":x", ""]
)
def test_a_name_without_a_class_is_refused(label: str) -> None:
    with pytest.raises(StateFormatError, match=f"class '{label}' is not registered; register it"):
        find_class(label)


def test_records_are_rebuilt_from_their_fields_without_running_their_code() -> None:
    person = Person(1, "ada")
    person.name = "ada"

    for record in (person, Point(1, 2), Order(3)):
        entry = record_entry(type(record))
        found = entry.decode(entry.encode(record))
        assert (type(found), found) == (type(record), record)


def test_a_record_with_another_number_of_fields_is_refused() -> None:
    with pytest.raises(
        StateFormatError, match=r"record Point has changed; got 3 fields; expected \('x', 'y'\)"
    ):
        record_entry(Point).decode((1, 2, 3))
