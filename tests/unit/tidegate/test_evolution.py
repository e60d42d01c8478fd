"""Types that change between two runs: what their bytes become, and what is refused."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import pickle
import typing
from typing import Any

import cloudpickle
import msgspec
import pytest

from tidegate.classes import register_class
from tidegate.elements import RowKind
from tidegate.errors import StateFormatError
from tidegate.evolution import converter
from tidegate.row import Row
from tidegate.serde import codec_for
from tidegate.types import Kind, TypeInformation, Types
from tidegate.untyped import SelfDescribing

LONG, DOUBLE, STRING = Types.LONG(), Types.DOUBLE(), Types.STRING()


def evolve(value: Any, before: TypeInformation | None, after: TypeInformation | None) -> Any:
    """A value through the bytes of one type and back from those of another."""
    old = codec_for(before)
    convert = converter(old.fingerprint, old.id, old.version, after)
    return codec_for(after).decode(convert(old.encode(value)))


class Sort(typing.NamedTuple):
    """A way to declare a record."""

    name: str
    make: Any


def _dataclass(name: str, fields: list[tuple[Any, ...]]) -> type[Any]:
    return dataclasses.make_dataclass(name, fields, namespace={"__module__": __name__})


def _frozen(name: str, fields: list[tuple[Any, ...]]) -> type[Any]:
    return dataclasses.make_dataclass(
        name, fields, frozen=True, slots=True, namespace={"__module__": __name__}
    )


def _named_tuple(name: str, fields: list[tuple[Any, ...]]) -> type[Any]:
    made = typing.NamedTuple(name, [field[:2] for field in fields])  # type: ignore[misc] # fields known at run time
    made.__new__.__defaults__ = tuple(field[2] for field in fields if len(field) > 2)
    made._field_defaults = {field[0]: field[2] for field in fields if len(field) > 2}
    made.__module__ = __name__
    return made


def _struct(name: str, fields: list[tuple[Any, ...]]) -> type[Any]:
    return msgspec.defstruct(name, fields, module=__name__)


def _array_struct(name: str, fields: list[tuple[Any, ...]]) -> type[Any]:
    return msgspec.defstruct(name, fields, array_like=True, tag="t", module=__name__)


def _renamed_struct(name: str, fields: list[tuple[Any, ...]]) -> type[Any]:
    return msgspec.defstruct(name, fields, rename="camel", module=__name__)


SORTS = {
    "dataclass": _dataclass,
    "frozen dataclass": _frozen,
    "named tuple": _named_tuple,
    "struct": _struct,
    "tagged array struct": _array_struct,
    "renamed struct": _renamed_struct,
}


@pytest.fixture(params=list(SORTS.values()), ids=list(SORTS))
def record(request: pytest.FixtureRequest) -> Any:
    """Declares a record class of the name Account."""
    return lambda *fields: request.param("Account", list(fields))


@pytest.fixture(params=[False, True], ids=["msgspec", "self-describing"])
def extra(request: pytest.FixtureRequest) -> list[tuple[str, Any, Any]]:
    """A field that only the self-describing form can carry, or none."""
    return [("more", Any, None)] if request.param else []


def fields(value: Any) -> dict[str, Any]:
    names = getattr(value, "_fields", None) or getattr(value, "__struct_fields__", None)
    return {name: getattr(value, name) for name in names or [each.name for each in dataclasses.fields(value)]}


def test_a_field_with_a_default_is_added_and_another_removed(record: Any, extra: list[Any]) -> None:
    before = record(("holder_name", str), ("cents", int), *extra)
    after = record(("holder_name", str), ("currency", str, "EUR"), *extra)

    value = evolve(before("ann", 500), Types.of(before), Types.of(after))

    assert type(value) is after
    assert fields(value) == {"holder_name": "ann", "currency": "EUR"} | ({"more": None} if extra else {})


def test_fields_grow_wider_at_any_depth(record: Any, extra: list[Any]) -> None:
    inner_before: Any = record(("cents", int))
    inner_after: Any = record(("cents", float), ("note", str | None, None))
    before = _dataclass("Outer", [("many", list[inner_before]), ("by_name", dict[str, inner_before]), *extra])
    after = _dataclass(
        "Outer", [("by_name", dict[str, inner_after]), ("many", list[inner_after] | None), *extra]
    )

    value = evolve(before([inner_before(1)], {"a": inner_before(2)}), Types.of(before), Types.of(after))

    assert fields(value.many[0]) == {"cents": 1.0, "note": None}
    assert type(value.many[0].cents) is float
    assert fields(value.by_name["a"]) == {"cents": 2.0, "note": None}


def test_a_class_that_travelled_by_value_has_its_defaults(record: Any) -> None:
    before = record(("cents", int))
    after = pickle.loads(cloudpickle.dumps(record(("cents", int), ("currency", str, "EUR"))))  # our own

    assert fields(evolve(before(5), Types.of(before), Types.of(after))) == {"cents": 5, "currency": "EUR"}


def test_a_field_that_needs_another_codec_is_added(record: Any) -> None:
    before = record(("cents", int))
    after = record(("cents", int), ("tags", Any, ()))

    assert codec_for(Types.of(before)).id != codec_for(Types.of(after)).id
    assert fields(evolve(before(5), Types.of(before), Types.of(after))) == {"cents": 5, "tags": ()}
    assert fields(evolve(after(5, {1}), Types.of(after), Types.of(before))) == {"cents": 5}


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


WIDER: dict[str, tuple[Any, Any, Any, Any]] = {
    "int to wider int": (Types.SHORT(), LONG, 7, 7),
    "int to int of any size": (LONG, Types.BIG_INT(), 7, 7),
    "int to float": (LONG, DOUBLE, 7, 7.0),
    "optional": (LONG, Types.OPTIONAL(DOUBLE), 7, 7.0),
    "none of an optional": (Types.OPTIONAL(LONG), Types.OPTIONAL(DOUBLE), None, None),
    "tuple": (Types.TUPLE([LONG, STRING]), Types.TUPLE([DOUBLE, STRING]), (1, "a"), (1.0, "a")),
    "tuple of any length": (Types.of(tuple[int, ...]), Types.of(tuple[float, ...]), (1, 2), (1.0, 2.0)),
    "set": (Types.of(set[int]), Types.of(set[float]), {1}, {1.0}),
    "keys and values": (Types.MAP(LONG, LONG), Types.MAP(DOUBLE, DOUBLE), {1: 2}, {1.0: 2.0}),
    "typed to untyped": (Types.LIST(LONG), None, [1], [1]),
    "typed to pickled": (Types.LIST(LONG), Types.PICKLED_BYTE_ARRAY(), [1], [1]),
    "a time without a zone": (
        Types.SQL_TIMESTAMP(),
        TypeInformation(Kind.DATETIME),
        datetime.datetime(2026, 1, 1),  # that is the point
        datetime.datetime(2026, 1, 1),  # that is the point
    ),
    "row": (
        Types.ROW_NAMED(["a", "b"], [LONG, STRING]),
        Types.ROW_NAMED(["c", "a"], [Types.OPTIONAL(STRING), DOUBLE]),
        Row.of([1, "x"], ["a", "b"], RowKind.DELETE),
        Row.of([None, 1.0], ["c", "a"], RowKind.DELETE),
    ),
    "row by position": (Types.ROW([LONG]), Types.ROW([DOUBLE]), Row(1), Row(f0=1.0)),
    "enum that stays": (
        Types.LIST(Types.of(Colour)),
        Types.OPTIONAL(Types.LIST(Types.of(Colour))),
        [Colour.RED],
        [Colour.RED],
    ),
}


@pytest.mark.parametrize(("before", "after", "value", "expected"), list(WIDER.values()), ids=list(WIDER))
def test_types_grow_wider(before: Any, after: Any, value: Any, expected: Any) -> None:
    found = evolve(value, before, after)
    assert (found, repr(found)) == (expected, repr(expected))


def _enum(**members: int) -> Any:
    name = "Mood"
    return enum.Enum(name, members, module=__name__, qualname=name)


def test_an_enum_gains_members() -> None:
    fewer = _enum(GLAD=1)
    more = _enum(GLAD=1, SAD=2)

    assert evolve(fewer["GLAD"], Types.of(fewer), Types.of(more)) is more["GLAD"]
    with pytest.raises(StateFormatError, match=r"got enum Mood\(GLAD\); expected enum Mood\(GLAD, SAD\)"):
        evolve(more["SAD"], Types.of(more), Types.of(fewer))


@dataclasses.dataclass
class Address:
    """A record within another."""

    zip: int


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "another type": (LONG, STRING, "got string; expected long"),
    "a narrower type": (DOUBLE, LONG, "got long; expected double"),
    "an optional that must be there": (Types.OPTIONAL(LONG), LONG, "got long; expected optional<long>"),
    "an element": (Types.LIST(LONG), Types.LIST(STRING), r"field \[\]: got string; expected long"),
    "a key": (Types.MAP(LONG, LONG), Types.MAP(STRING, LONG), r"field \{key\}: got string; expected long"),
    "a longer tuple": (Types.TUPLE([LONG]), Types.TUPLE([LONG, LONG]), "expected tuple<long>"),
    "an item": (Types.TUPLE([LONG]), Types.TUPLE([STRING]), r"field \[0\]: got string; expected long"),
    "a row's field": (
        Types.ROW_NAMED(["a"], [LONG]),
        Types.ROW_NAMED(["a", "b"], [LONG, LONG]),
        "field b: got long; expected a default, because it was not stored",
    ),
    "untyped to typed": (None, LONG, "got long; expected any"),
    "a record that becomes untyped": (
        Types.of(Address),
        None,
        r"got any; expected record Address\(zip: long\)",
    ),
    "another record": (Types.of(Address), Types.of(_dataclass("Place", [("zip", int)])), "got record Place"),
}


@pytest.mark.parametrize(("before", "after", "message"), list(REFUSED.values()), ids=list(REFUSED))
def test_what_cannot_be_read_is_refused(before: Any, after: Any, message: str) -> None:
    old = codec_for(before)
    with pytest.raises(StateFormatError, match=message):
        converter(old.fingerprint, old.id, old.version, after)


def test_the_field_in_the_way_is_named(record: Any) -> None:
    address = Types.of(record(("zip", int)))
    before = _dataclass("Outer", [("home", address.cls)])
    after = _dataclass("Outer", [("home", record(("zip", str)))])
    with pytest.raises(StateFormatError, match=r"field home\.zip: got string; expected long"):
        evolve(None, Types.of(before), Types.of(after))
    with pytest.raises(
        StateFormatError, match="field town: got string; expected a default, because it was not"
    ):
        evolve(None, address, Types.of(record(("zip", int), ("town", str))))


def test_an_int_that_no_float_equals_is_refused() -> None:
    with pytest.raises(
        StateFormatError,
        match="9007199254740993 cannot be represented exactly as a float; keep the state an int",
    ):
        evolve(2**53 + 1, LONG, DOUBLE)


def test_a_default_of_another_type_is_refused(record: Any) -> None:
    before = record()
    with pytest.raises(StateFormatError, match=r"cannot be read as .*field .*n: got str 'x'; expected long"):
        evolve(before(), Types.of(before), Types.of(record(("n", int, "x"))))


@pytest.mark.parametrize("text", ["", "list<long", "long>", "nothing<long>", "row(a)", "list<long>x"])
def test_a_fingerprint_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(StateFormatError, match="unknown type fingerprint"):
        converter(text, "msgspec", 1, LONG)


def test_bytes_of_a_newer_codec_are_refused() -> None:
    with pytest.raises(
        StateFormatError, match="written by codec msgspec 2, which is unknown; upgrade tidegate"
    ):
        converter("long", "msgspec", 2, DOUBLE)


def test_registered_classes_gain_and_lose_fields_by_name(
    record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.classes._by_name", {})
    monkeypatch.setattr("tidegate.classes._by_class", {})
    data = SelfDescribing().encode(register_class(record(("b", int), ("a", int)), name="account")(2, 1))
    monkeypatch.setattr("tidegate.classes._by_name", {})
    register_class(record(("a", int), ("c", int, 7)), name="account")
    assert fields(SelfDescribing().decode(data)) == {"a": 1, "c": 7}
    monkeypatch.setattr("tidegate.classes._by_name", {})
    register_class(record(("a", int), ("d", int)), name="account")
    with pytest.raises(StateFormatError, match="record Account has changed; got fields b, a; expected d too"):
        SelfDescribing().decode(data)
