"""What annotations say about values."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import uuid
from collections.abc import Generator, Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, Union

import msgspec
import pytest

from tidegate.errors import ConfigError
from tidegate.types import Kind, TypeInformation, Types, infer, result_type

UserId = NewType("UserId", int)


class Colour(enum.Enum):
    RED = "r"


@dataclasses.dataclass
class Person:
    id: int
    name: str


class Point(NamedTuple):
    x: float
    y: float


class Order(msgspec.Struct):
    buyer: Person
    at: Point | None
    extra: Any


@dataclasses.dataclass
class Node:
    children: list[Node]


@dataclasses.dataclass
class Lost:
    field: NowhereDefined  # type: ignore[name-defined]  # noqa: F821  # that is the point


@dataclasses.dataclass
class Named(list[int]):
    name: str


PERSON = TypeInformation(Kind.RECORD, (Types.LONG(), Types.STRING()), ("id", "name"), Person)
POINT = TypeInformation(Kind.RECORD, (Types.DOUBLE(), Types.DOUBLE()), ("x", "y"), Point)
ANY = TypeInformation(Kind.ANY)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (bool, Types.BOOLEAN()),
        (int, Types.LONG()),
        (float, Types.DOUBLE()),
        (str, Types.STRING()),
        (bytes, Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (decimal.Decimal, Types.BIG_DEC()),
        (datetime.date, Types.SQL_DATE()),
        (datetime.time, Types.SQL_TIME()),
        (datetime.datetime, TypeInformation(Kind.DATETIME)),
        (datetime.timedelta, TypeInformation(Kind.DURATION)),
        (uuid.UUID, TypeInformation(Kind.UUID)),
        (UserId, Types.LONG()),
        (Annotated[int, "note"], Types.LONG()),
        (Literal["a", "b"], Types.STRING()),
        (Colour, TypeInformation(Kind.ENUM, names=("RED",), cls=Colour)),
        (list[int], Types.LIST(Types.LONG())),
        (set[str], TypeInformation(Kind.SET, (Types.STRING(),))),
        (frozenset[str], TypeInformation(Kind.FROZENSET, (Types.STRING(),))),
        (dict[str, list[int]], Types.MAP(Types.STRING(), Types.LIST(Types.LONG()))),
        (tuple[int, str], Types.TUPLE([Types.LONG(), Types.STRING()])),
        (tuple[()], Types.TUPLE([])),
        (tuple[int, ...], TypeInformation(Kind.VARIADIC, (Types.LONG(),))),
        (int | None, Types.OPTIONAL(Types.LONG())),
        (Optional[int], Types.OPTIONAL(Types.LONG())),  # noqa: UP045  # the old spelling is what is tested
        (Union[None, str], Types.OPTIONAL(Types.STRING())),  # noqa: UP007
        (Person, PERSON),
        (Point, POINT),
        (
            Order,
            TypeInformation(
                Kind.RECORD, (PERSON, Types.OPTIONAL(POINT), ANY), ("buyer", "at", "extra"), Order
            ),
        ),
        (dict[str, Any], Types.MAP(Types.STRING(), ANY)),
        (Node, TypeInformation(Kind.RECORD, (Types.LIST(ANY),), ("children",), Node)),
        (Lost, TypeInformation(Kind.RECORD, (ANY,), ("field",), Lost)),
    ],
    ids=str,
)
def test_annotations_are_read(annotation: Any, expected: TypeInformation) -> None:
    assert infer(annotation) == expected


@pytest.mark.parametrize(
    "annotation",
    [
        Any,
        object,
        None,
        int | str,
        list,
        dict,
        tuple,
        Literal[1, "a"],
        Iterator[int],
        type[int],
        "int",
        Named,
        Types,
    ],
    ids=str,
)
def test_what_python_leaves_open_stays_untyped(annotation: Any) -> None:
    assert infer(annotation) is None


def test_of_refuses_what_says_nothing() -> None:
    with pytest.raises(
        ConfigError, match=r"no type can be derived from typing\.Any; expected a concrete type"
    ):
        Types.of(Any)
    assert Types.of(int) == Types.LONG()


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (Types.TUPLE([Types.INT(), Types.DOUBLE()]), "tuple<int, double>"),
        (Types.TUPLE([]), "tuple<>"),
        (Types.ROW([Types.INT(), Types.STRING()]), "row(f0: int, f1: string)"),
        (Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]), "row(id: int, name: string)"),
        (
            Types.MAP(Types.STRING(), Types.OPTIONAL(PERSON)),
            "map<string, optional<record Person(id: long, name: string)>>",
        ),
        (Types.of(Colour), "enum Colour(RED)"),
        (Types.PICKLED_BYTE_ARRAY(), "pickled"),
    ],
    ids=str,
)
def test_fingerprints_are_readable(info: TypeInformation, text: str) -> None:
    assert info.fingerprint == str(info) == text


def test_equal_shapes_under_other_names_have_other_fingerprints() -> None:
    kinds = [
        Types.BOOLEAN,
        Types.BYTE,
        Types.SHORT,
        Types.INT,
        Types.LONG,
        Types.BIG_INT,
        Types.FLOAT,
        Types.DOUBLE,
    ]
    kinds += [Types.BIG_DEC, Types.STRING, Types.SQL_DATE, Types.SQL_TIME, Types.SQL_TIMESTAMP, Types.INSTANT]

    assert len({kind().fingerprint for kind in kinds}) == len(kinds)


def test_optional_of_optional_is_optional() -> None:
    once = Types.OPTIONAL(Types.INT())

    assert Types.OPTIONAL(once) == once
    assert Types.OPTIONAL(ANY) == ANY


def test_a_primitive_array_of_other_elements_is_a_list() -> None:
    assert Types.PRIMITIVE_ARRAY(Types.INT()) == Types.LIST(Types.INT())


@pytest.mark.parametrize("names", [["a"], ["a", "a"]])
def test_row_names_that_do_not_fit_are_refused(names: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"invalid row field names; got .*; expected 2 different ones"):
        Types.ROW_NAMED(names, [Types.INT(), Types.INT()])


def test_walk_visits_every_type_inside() -> None:
    info = Types.MAP(Types.STRING(), Types.LIST(Types.INT()))

    assert [part.kind for part in info.walk()] == [Kind.MAP, Kind.STRING, Kind.LIST, Kind.INT]


class Mapper:
    def map(self, value: str) -> int:
        return len(value)

    def __call__(self, value: str) -> Person:
        return Person(1, value)


def split(line: str) -> Iterator[str]:
    yield from line.split()


def tokens(line: str) -> Generator[int, None, None]:
    yield len(line)


def listed(line: str) -> list[Point]:
    return [Point(0.0, float(len(line)))]


def unsaid(line):  # type: ignore[no-untyped-def]  # that is the point
    return line


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Mapper().map, Types.LONG()),
        (Mapper(), PERSON),
        (functools.partial(Mapper.map, Mapper()), Types.LONG()),
        (int, Types.LONG()),
        (Person, PERSON),
        (listed, Types.LIST(POINT)),
        (split, None),
        (unsaid, None),
        (lambda value: value, None),
        (len, None),
        (3, None),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value).partition(" at 0x")[0],
)
def test_results_are_read_from_the_return_annotation(function: Any, expected: TypeInformation | None) -> None:
    assert result_type(function) == expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [(split, Types.STRING()), (tokens, Types.LONG()), (listed, POINT), (Mapper().map, None), (Person, None)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_elements_are_read_from_the_iterable_a_function_returns(
    function: Any, expected: TypeInformation | None
) -> None:
    assert result_type(function, element=True) == expected


def test_a_class_from_the_enclosing_function_is_found_if_the_function_uses_it() -> None:
    @dataclasses.dataclass
    class Local:
        n: int

    def make(n: int) -> Local:
        return Local(n)

    def promise(n: int) -> Iterable[Local]:
        raise NotImplementedError(n)

    found = result_type(make)
    assert found is not None
    assert found.cls is Local
    assert result_type(promise, element=True) is None
