"""Type variables of functions and streams; the default of each is `Any`.

So `MapFunction` alone means what `MapFunction[Any, Any]` means, for every type checker.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["ACC", "IN", "IN1", "IN2", "KEY", "OUT", "Handled", "R", "T", "W", "W_co"]

# The standard library has no defaults of type variables before 3.13, and only type checkers need them.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ACC = TypeVar("ACC", default=Any)
    IN = TypeVar("IN", default=Any)
    IN1 = TypeVar("IN1", default=Any)
    IN2 = TypeVar("IN2", default=Any)
    KEY = TypeVar("KEY", default=Any)
    OUT = TypeVar("OUT", default=Any)
    R = TypeVar("R", default=Any)
    T = TypeVar("T", default=Any)
    W = TypeVar("W", default=Any)
    W_co = TypeVar("W_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    ACC, IN, IN1, IN2, KEY, OUT = map(TypeVar, ("ACC", "IN", "IN1", "IN2", "KEY", "OUT"))
    R, T, W = map(TypeVar, "RTW")
    W_co = TypeVar("W_co", covariant=True)

Handled: TypeAlias = Iterable[T] | Awaitable[Iterable[T] | None] | AsyncIterable[T] | None
"""Result type of a keyed process function, which may be `async def`."""
