"""Values and code of a program as bytes for its other processes: classes of a script or notebook travel by value.

Example:
    >>> import cloudpickle
    >>> cloudpickle.loads(dumps([1, "a"]))
    [1, 'a']
"""

from __future__ import annotations

import io
from typing import Any

import cloudpickle

__all__ = ["dumps"]

_MSGSPEC_CACHE = "__msgspec_cache__"


def dumps(thing: Any) -> bytes:
    """Pickle; raises whatever the classes of `thing` raise."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(thing)
    return buffer.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # the library has no types
    """Leaves out what msgspec notes on classes it has seen: it cannot be sent and is made again when needed."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and _MSGSPEC_CACHE in vars(obj):
            delattr(obj, _MSGSPEC_CACHE)
        return super().reducer_override(obj)
