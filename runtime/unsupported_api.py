"""Unsupported PyFlink methods: accessing one raises an error with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.runtime.alias import known_reason

__all__ = ["UnsupportedApi"]


class UnsupportedApi:
    """Base of classes with PyFlink's API.

    Example:
        >>> from tidegate.datastream import StreamExecutionEnvironment
        >>> StreamExecutionEnvironment.get_execution_environment().set_default_local_parallelism(2)
        Traceback (most recent call last):
        ...
        AttributeError: StreamExecutionEnvironment.set_default_local_parallelism is not available: set parallelism.default
    """

    # Hidden from type checkers, which would otherwise accept every attribute name.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            said = None
            if not name.startswith("_"):
                classes = (cls.__name__ for cls in type(self).__mro__)
                said = next(filter(None, (known_reason(f"{cls}.{name}") for cls in classes)), None)
            raise AttributeError(
                f"{type(self).__name__}.{name} is not available" + (f": {said}" if said else ""),
                name=name,
                obj=self,
            )
