"""Converts records to their declared row type, as PyFlink does where records leave a step.

A function may return a tuple, list or dict where it declared a row, rows without names or in another order where it
declared names, and a list or row where it declared a tuple.
Everything else is unchanged, and the codec refuses values of another type.

Example:
    >>> from tidegate.types import Types
    >>> to_row = shaper(Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]))
    >>> to_row((7, "ada")).name
    'ada'
    >>> shaper(Types.TUPLE([Types.INT()]))([7])
    (7,)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.checks import checker, locate
from tidegate.errors import RecordError
from tidegate.types import Kind, Row, TypeInformation

__all__ = ["Declared", "Shaper", "may_be_row", "settled", "shaped", "shaper"]

Shaper = Callable[[Any], Any]


def shaper(info: TypeInformation | None) -> Shaper | None:
    """The conversion to rows and tuples for records of a type; None if the type has none."""
    if info is None or all(each.kind not in (Kind.ROW, Kind.TUPLE) for each in info.walk()):
        return None
    inner = [shaper(item) for item in info.items]
    match info.kind:
        case Kind.ROW:
            return lambda value: _row(value, info.names, inner)
        case Kind.TUPLE:
            return lambda value: tuple(_each(value, inner)) if _has(value, inner) else value
        case Kind.LIST:
            return lambda value: _each(value, inner * len(value)) if type(value) is list else value
        case Kind.MAP:
            return lambda value: _map(value, inner) if type(value) is dict else value
        case Kind.OPTIONAL:
            return lambda value: value if value is None else _each([value], inner)[0]
    return None


def may_be_row(info: TypeInformation | None) -> bool:
    """Whether records of a type can be rows."""
    if info is not None and info.kind is Kind.OPTIONAL:
        return may_be_row(info.items[0])
    return info is None or info.kind in (Kind.ROW, Kind.ANY, Kind.PICKLED)


def settled(info: TypeInformation | None) -> type[Any] | None:
    """The class whose instances always have the shape of a type; None if their fields have to be checked."""
    flat = info is not None and info.kind is Kind.TUPLE and not any(map(shaper, info.items))
    return tuple if flat else None


def shaped(combine: Callable[[Any, Any], Any], info: TypeInformation | None) -> Callable[[Any, Any], Any]:
    """`combine` with results converted to the shape of a type."""
    shape = shaper(info)
    return combine if shape is None else lambda first, second: shape(combine(first, second))


class Declared:
    """Refuses a result that is not of the type its function declares; `seen` is true after the first result.

    Example:
        >>> from tidegate.types import Types
        >>> Declared(Types.INT())("7")
        Traceback (most recent call last):
        ...
        tidegate.errors.RecordError: result does not have its declared type: got str '7'; expected int
    """

    __slots__ = ("_has_type", "_info", "seen")

    def __init__(self, info: TypeInformation) -> None:
        self._info = info
        self._has_type = checker(info)
        self.seen = False

    def __call__(self, value: Any) -> None:
        """Check a result."""
        if not self._has_type(value):
            raise RecordError(f"result does not have its declared type: {locate(self._info, value)}")
        self.seen = True


def _row(value: Any, names: tuple[str, ...], inner: list[Shaper | None]) -> Any:
    if type(value) is dict and names and value.keys() == set(names):
        return Row.of(_each([value[name] for name in names], inner), names)
    if not _has(value, inner):
        return value
    if type(value) is not Row:
        return Row.of(_each(value, inner), names)
    if value.names and set(value.names) != set(names):
        return value
    return Row.of(_each(value.get_fields_by_names(names), inner), names, value.get_row_kind())


def _has(value: Any, inner: list[Shaper | None]) -> bool:
    return type(value) in (tuple, list, Row) and len(value) == len(inner)


def _each(values: Any, inner: list[Shaper | None]) -> list[Any]:
    return [value if shape is None else shape(value) for value, shape in zip(values, inner, strict=True)]


def _map(value: dict[Any, Any], inner: list[Shaper | None]) -> dict[Any, Any]:
    pairs = (_each(pair, inner) for pair in value.items())
    return dict(pairs)
