"""Iterable results of functions. A `str` is refused, because each of its characters would become a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

__all__ = ["iterated", "refuse_text"]


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


def refuse_text(results: str, function: Callable[..., Any]) -> NoReturn:
    """Refuse the `str` that a function returned.

    Raises:
        TypeError: always.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__).rpartition("<locals>.")[2]
    raise TypeError(
        f"{name} returned {results[:80]!r}, a str, and its characters would become records; yield it, or return [it]"
    )
