"""Values and code of a program as bytes for its other processes: classes of a script or notebook travel by value.

Example:
    >>> import cloudpickle
    >>> cloudpickle.loads(dumps([1, "a"]))
    [1, 'a']
"""

from __future__ import annotations

import io
from pickle import Pickler, PicklingError
from typing import Any

import cloudpickle

__all__ = ["dumps", "dumps_plain"]

_MSGSPEC_CACHE = "__msgspec_cache__"


def dumps(thing: Any) -> bytes:
    """Pickle; raises whatever the classes of `thing` raise."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(thing)
    return buffer.getvalue()


def dumps_plain(values: list[Any]) -> bytes:
    """Pickle what consists of built-in types alone.

    Raises:
        PicklingError: something in it has another type.
    """
    buffer = io.BytesIO()
    _Plain(buffer, protocol=5).dump(values)
    return buffer.getvalue()


class _Plain(Pickler):
    """Refuses whatever has to be asked how it travels."""

    def reducer_override(self, obj: Any) -> Any:
        raise PicklingError(f"{type(obj).__name__} is not a built-in type")


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # the library has no types
    """Leaves out what msgspec notes on classes it has seen: it cannot be sent and is made again when needed."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and _MSGSPEC_CACHE in vars(obj):
            delattr(obj, _MSGSPEC_CACHE)
        return super().reducer_override(obj)
