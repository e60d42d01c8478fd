"""Exact type checks of values: generated code checks fast; a slow path locates the mismatch.

Exactly means: no subclass, no `True` for an int, no `1` for a float, because the bytes would come back as
something else.

Example:
    >>> check = checker(Types.TUPLE([Types.LONG(), Types.STRING()]))
    >>> check((1, "a")), check((True, "a"))
    (True, False)
    >>> locate(Types.TUPLE([Types.LONG(), Types.STRING()]), (True, "a"))
    'field [0]: got bool True; expected long'
"""

from __future__ import annotations

import datetime
import decimal
import functools
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tidegate.row import Row
from tidegate.types import Kind, TypeInformation, Types, numbered

__all__ = ["batch_checker", "checker", "exact_class", "locate", "shorten"]

_EXACT: Final[dict[Kind, type[Any]]] = {
    Kind.BOOLEAN: bool,
    Kind.BYTE: int,
    Kind.SHORT: int,
    Kind.INT: int,
    Kind.LONG: int,
    Kind.BIG_INT: int,
    Kind.FLOAT: float,
    Kind.DOUBLE: float,
    Kind.DECIMAL: decimal.Decimal,
    Kind.STRING: str,
    Kind.BYTES: bytes,
    Kind.DATE: datetime.date,
    Kind.TIME: datetime.time,
    Kind.DATETIME: datetime.datetime,
    Kind.TIMESTAMP: datetime.datetime,
    Kind.INSTANT: datetime.datetime,
    Kind.DURATION: datetime.timedelta,
    Kind.UUID: uuid.UUID,
    Kind.LIST: list,
    Kind.SET: set,
    Kind.FROZENSET: frozenset,
    Kind.MAP: dict,
    Kind.TUPLE: tuple,
    Kind.VARIADIC: tuple,
    Kind.ROW: Row,
}
_BITS: Final = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_EXTRA: Final[dict[Kind, str]] = {
    Kind.DECIMAL: "not {0}.is_snan()",
    Kind.TIME: "{0}.tzinfo is None and not {0}.fold",
    Kind.TIMESTAMP: "{0}.tzinfo is None and not {0}.fold",
    Kind.INSTANT: "{0}.tzinfo is utc",
    Kind.DATETIME: "({0}.tzinfo is None or {0}.tzinfo is utc) and not {0}.fold",
    **{
        kind: f"{-(2 ** (bits - 1))} <= {{0}} <= {2 ** (bits - 1) - 1}"
        for kind, bits in _BITS.items()
        if kind is not Kind.LONG  # the encoder refuses more than 64 bits by itself
    },
}


@functools.lru_cache(maxsize=1_024)
def checker(info: TypeInformation) -> Callable[[Any], bool]:
    """A function that checks whether one value has exactly this type."""
    return _Source().compile(info, "    return {test}")


@functools.lru_cache(maxsize=1_024)
def batch_checker(info: TypeInformation) -> Callable[[Sequence[Any]], bool]:
    """A function that checks whether all values of a sequence have exactly this type, in one loop."""
    return _Source().compile(
        info, "    for v in v:\n        if not ({test}):\n            return False\n    return True"
    )


def locate(info: TypeInformation, value: Any, path: str = "") -> str:
    """The path and the difference of a value that is not of its type, for an error message."""
    for item, inner, label in _parts(info, value):
        if not checker(item)(inner):
            return locate(item, inner, path + label)
    where = f"field {path.removeprefix('.')}: " if path else ""
    hint = "; convert it with .astimezone(timezone.utc)" if isinstance(value, datetime.datetime) else ""
    return f"{where}got {type(value).__name__} {shorten(value)}; expected {info}{hint}"


def exact_class(kind: Kind) -> type[Any]:
    """The one class whose instances have this kind."""
    return _EXACT[kind]


def shorten(value: Any) -> str:
    """A value for an error message, even if its `repr` fails."""
    try:
        text = repr(value)
    except Exception as error:  # the value's own code, which must not hide what is wrong with it
        text = f"<{type(value).__name__} whose repr fails: {error}>"
    return text if len(text) <= 80 else text[:77] + "..."


class _Source:
    """Python source under construction: one function for each nested composite type, scalars inlined."""

    def __init__(self) -> None:
        self._functions: list[str] = []
        self._names: dict[str, Any] = {"type": type, "utc": datetime.UTC}

    def compile(self, info: TypeInformation, body: str) -> Callable[[Any], bool]:
        test = self._test(info, "v")
        # names bound as defaults are locals of the loop, which is what makes it fast
        bound = ", ".join(f"{name}={name}" for name in self._names)
        source = "\n".join([*self._functions, f"def check(v, {bound}):", body.format(test=test)])
        namespace = dict(self._names)
        exec(compile(source, f"<check of {info}>", "exec"), namespace)
        check: Callable[[Any], bool] = namespace["check"]
        return check

    def _test(self, info: TypeInformation, value: str) -> str:
        """An expression over the variable `value`."""
        match info.kind:
            case Kind.ANY | Kind.PICKLED:
                return "True"
            case Kind.OPTIONAL:
                return f"({value} is None or {self._test(info.items[0], value)})"
            case Kind.LIST | Kind.SET | Kind.FROZENSET | Kind.VARIADIC | Kind.MAP:
                return f"{self._exact(info, value)} and {self._each(info, value)}"
            case Kind.TUPLE:
                return self._all(info, value, [f"{value}[{index}]" for index in range(len(info.items))])
            case Kind.RECORD:
                return self._all(info, value, [f"{value}.{name}" for name in info.names])
            case Kind.ROW:
                # Rows stored before their fields had names stay unnamed.
                names = (info.names, ()) if info.names == numbered(len(info.items)) else (info.names,)
                head = f"{self._exact(info, value)} and {value}.names in {names!r}"
                fields = Types.TUPLE([Types.OPTIONAL(item) for item in info.items])
                return f"{head} and {self._call(fields, f'tuple({value})')}"
            case _:
                extra = _EXTRA.get(info.kind)
                return self._exact(info, value) + (f" and {extra.format(value)}" if extra else "")

    def _exact(self, info: TypeInformation, value: str) -> str:
        return f"type({value}) is {self._name(info.cls or _EXACT[info.kind])}"

    def _all(self, info: TypeInformation, value: str, parts: list[str]) -> str:
        tests = [self._exact(info, value)]
        if info.kind is Kind.TUPLE:
            tests.append(f"len({value}) == {len(parts)}")
        for item, part in zip(info.items, parts, strict=True):
            simple = (
                item.kind in _EXACT and not item.items and item.kind not in _EXTRA
            ) or item.kind is Kind.ENUM
            tests.append(self._test(item, part) if simple else self._call(item, part))
        return " and ".join(test for test in tests if test != "True")

    def _each(self, info: TypeInformation, value: str) -> str:
        if info.kind is Kind.MAP:
            key, item = info.items
            return f"{self._members(key, value)} and {self._members(item, f'{value}.values()')}"
        return self._members(info.items[0], value)

    def _members(self, item: TypeInformation, values: str) -> str:
        if item.kind in _EXACT and not item.items and item.kind not in _EXTRA:
            only = self._name(frozenset({_EXACT[item.kind]}))
            return f"{only}.issuperset(map(type, {values}))"
        return f"all(map({self._function(item)}, {values}))"

    def _call(self, item: TypeInformation, value: str) -> str:
        return "True" if item.kind in (Kind.ANY, Kind.PICKLED) else f"{self._function(item)}({value})"

    def _function(self, item: TypeInformation) -> str:
        return self._name(checker(item))

    def _name(self, thing: Any) -> str:
        for name, known in self._names.items():
            if known is thing:
                return name
        name = f"{getattr(thing, '__name__', 'only')}_{len(self._names)}"
        self._names[name] = thing
        return name


def _parts(info: TypeInformation, value: Any) -> Iterator[tuple[TypeInformation, Any, str]]:
    """The parts of a value, with their types and paths; empty if the value itself is of another type."""
    kind, items = info.kind, info.items
    if kind is Kind.OPTIONAL:
        if value is not None:
            yield items[0], value, ""
    elif type(value) is not (info.cls or _EXACT.get(kind)):
        return
    elif kind is Kind.RECORD:
        for item, name in zip(items, info.names, strict=True):
            yield item, getattr(value, name, None), f".{name}"
    elif kind is Kind.TUPLE and len(value) == len(items):
        for index, item in enumerate(items):
            yield item, value[index], f"[{index}]"
    elif kind is Kind.ROW and len(value) == len(items):
        for item, inner, name in zip(items, value, info.names or numbered(len(items)), strict=True):
            yield Types.OPTIONAL(item), inner, f".{name}"
    elif kind is Kind.MAP:
        for key, inner in value.items():
            yield items[0], key, f"{{key {shorten(key)}}}"
            yield items[1], inner, f"[{shorten(key)}]"
    elif kind in (Kind.LIST, Kind.VARIADIC, Kind.SET, Kind.FROZENSET):
        for index, inner in enumerate(value):
            yield items[0], inner, f"[{index}]"
