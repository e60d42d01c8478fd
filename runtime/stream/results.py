"""Iterable results of functions. A `str` is refused, because each of its characters would become a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import isgeneratorfunction
from typing import Any, Final, NoReturn

from tidegate.types import Kind, result_type

__all__ = ["iterated", "may_return_text", "refuse_text"]

_COLLECTIONS: Final = frozenset({Kind.LIST, Kind.SET, Kind.FROZENSET, Kind.MAP, Kind.TUPLE, Kind.VARIADIC})


def iterated(results: Iterable[Any] | None, function: Callable[..., Any]) -> Iterable[Any]:
    """The results of a function, none for None.

    Example:
        >>> list(iterated(["one"], print)), list(iterated(None, print))
        (['one'], [])

    Raises:
        TypeError: they are a `str`.
    """
    if type(results) is str:
        refuse_text(results, function)
    return results or ()


def may_return_text(function: Callable[..., Any]) -> bool:
    """Whether the results of a function can be a `str`: not of a generator, nor of one that is annotated as a collection.

    Example:
        >>> def words(line: str) -> list[str]: ...
        >>> def pairs(line): yield line, line
        >>> may_return_text(words), may_return_text(pairs), may_return_text(lambda line: line)
        (False, False, True)
    """
    if isgeneratorfunction(function):
        return False
    returned = result_type(function)
    if returned is not None and returned.kind is Kind.OPTIONAL:
        returned = returned.items[0]
    return returned is None or returned.kind not in _COLLECTIONS


def refuse_text(results: str, function: Callable[..., Any]) -> NoReturn:
    """Refuse the `str` that a function returned.

    Raises:
        TypeError: always.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__).rpartition("<locals>.")[2]
    raise TypeError(
        f"{name} returned {results[:80]!r}, a str, and its characters would become records; yield it, or return [it]"
    )
