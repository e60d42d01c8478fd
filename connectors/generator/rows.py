"""Numbers, or what a function makes of them, as a table.

Example:
    >>> GeneratorRows().source({"count": "10"}, bounded=True).count
    10
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tidegate.connectors.generator.source import GeneratorSource
from tidegate.errors import ConfigError
from tidegate.options import Layer, load, option

__all__ = ["GeneratorRows"]


@dataclass(frozen=True)
class _Source:
    count: int | None = option("count", None, "how many rows there are; a stream may have no end")
    splits: int = option("splits", 2, "into how many parts they are cut")
    function: str | None = option("function", None, "module:name of what makes a row of its number")


class GeneratorRows:
    """Makes sources of options."""

    columns = "value BIGINT"

    def source(self, options: Mapping[str, str], *, bounded: bool) -> GeneratorSource[Any]:
        """The numbers from 0 on, or what a function makes of them.

        Raises:
            ConfigError: an option is unknown or wrong, or a table would have no end.
        """
        said = load(_Source, Layer("the options of connector generator", options))
        if bounded and said.count is None:
            raise ConfigError(
                "connector generator has no end; expected the option count to read it as a table"
            )
        return GeneratorSource(_function(said.function), said.count, said.splits)


def _itself(number: int) -> int:
    return number


def _function(name: str | None) -> Callable[[int], Any]:
    if name is None:
        return _itself
    module, _, attribute = name.partition(":")
    try:
        found: Callable[[int], Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"function {name!r} of connector generator cannot be loaded ({error}); expected module:name of a function "
            "that is installed where executors run"
        ) from error
    return found
