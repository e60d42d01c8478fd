"""Generates quick tests for immutable values from a declared type, in place of a walk through each value.

A declared type is no guarantee for the values. So the generated loop tests each value, and takes the general path if the
test fails; for numbers, strings and tuples of them the test is a few comparisons.

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
    """The class name of a type's values if they are atoms or tuples of atoms."""
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
