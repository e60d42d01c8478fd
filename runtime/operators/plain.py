"""Tests of plain values as source, by their declared type: at a glance instead of by looking through each value.

A declared type promises nothing about the values that come. So the generated loop asks, and what fails the test goes the
long way; but for numbers, texts and tuples of them it asks in a few comparisons whether nobody can change a value.

Example:
    >>> from tidegate.types import Types
    >>> plain_test(Types.TUPLE([Types.STRING(), Types.LONG()]), "v")
    'type(v) is tuple and len(v) == 2 and type(v[0]) is str and type(v[1]) is int'
    >>> plain_test(Types.LIST(Types.LONG()), "v") is None
    True
"""

from __future__ import annotations

from typing import Final

from tidegate.types import Kind, TypeInformation

__all__ = ["plain_class", "plain_test"]

_ATOMS: Final = {
    Kind.BOOLEAN: "bool",
    Kind.STRING: "str",
    Kind.BYTES: "bytes",
    **dict.fromkeys((Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.BIG_INT), "int"),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), "float"),
}


def plain_class(info: TypeInformation | None) -> str | None:
    """The name of the class of a type's values if they are atoms or tuples of such."""
    if info is None or (info.kind is Kind.TUPLE and any(plain_class(item) is None for item in info.items)):
        return None
    return "tuple" if info.kind is Kind.TUPLE else _ATOMS.get(info.kind)


def plain_test(info: TypeInformation | None, value: str) -> str | None:
    """An expression that is true if `value` is of a type whose values cannot change; None if they can."""
    name = plain_class(info)
    if info is None or name is None:
        return None
    tests = [f"type({value}) is {name}"]
    if info.kind is Kind.TUPLE:
        tests.append(f"len({value}) == {len(info.items)}")
        tests += [str(plain_test(item, f"{value}[{at}]")) for at, item in enumerate(info.items)]
    return " and ".join(tests)
