"""Display names of steps and functions in plans: `Flat Map`, `Source: Socket Stream`, `ReduceFunction$1`.

The name is the one the user gave; otherwise the label of the step; otherwise its kind, in words.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tidegate.runtime.operators.operator import Role

if TYPE_CHECKING:
    from tidegate.runtime.graph.transformations import Transformation

__all__ = ["FunctionNames", "Label", "title"]


class FunctionNames:
    """Names functions by their class; those without a class of their own by a number within their interface.

    Example:
        >>> names = FunctionNames()
        >>> names.of(max, "ReduceFunction"), names.of(min, "ReduceFunction"), names.of(max, "ReduceFunction")
        ('ReduceFunction$1', 'ReduceFunction$2', 'ReduceFunction$1')
    """

    def __init__(self) -> None:
        self._numbers: dict[str, dict[int, int]] = {}

    def of(self, function: Any, interface: str) -> str:
        """The name of `function` where an `interface` such as `ReduceFunction` is expected."""
        if not isinstance(function, _NAMELESS):
            return type(function).__name__
        numbers = self._numbers.setdefault(interface, {})
        return f"{interface}${numbers.setdefault(id(function), len(numbers) + 1)}"


Label: TypeAlias = str | Callable[[FunctionNames], str]
"""The label of a step in plans: a text, or a function that builds the text if it contains names of user functions."""


def title(step: Transformation, names: FunctionNames) -> str:
    """The display name of `step` in plans."""
    label = step.label(names) if callable(step.label) else step.label
    return _PREFIXES.get(step.kind.role, "") + (label or _given(step) or _by_kind(step))


_NAMELESS: Final = (
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    functools.partial,
    type,
)
_PREFIXES: Final = {Role.SOURCE: "Source: ", Role.SINK: "Sink: "}


def _given(step: Transformation) -> str | None:
    return step.name if step.name != step.kind.name else None


def _by_kind(step: Transformation) -> str:
    return type(step.payload).__name__ if step.kind.role in _PREFIXES else step.kind.title
