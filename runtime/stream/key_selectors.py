"""Key selectors: a function, a `KeySelector`, or the position or name of a field.

Example:
    >>> by_word = selector("key_by", "word")
    >>> by_word({"word": "to", "count": 2})
    'to'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidegate.errors import ConfigError
from tidegate.runtime.stream.aggregations import Field, field_of
from tidegate.runtime.stream.checkpointed import stateless
from tidegate.runtime.stream.functions import as_callable

__all__ = ["FieldSelector", "selector"]


@dataclass(frozen=True)
class FieldSelector:
    """Reads one field of a record: the key of a keyed stream, or what a partitioner is told."""

    field: Field

    def __call__(self, record: Any) -> Any:
        """The field's value."""
        return field_of(record, self.field)


def selector(step: str, key_selector: Any) -> Callable[[Any], Any]:
    """What reads the key of a record.

    Raises:
        ConfigError: it is neither a function nor a field.
    """
    if type(key_selector) in (int, str):
        return FieldSelector(key_selector)
    read = as_callable(stateless(step, key_selector))
    if not callable(read):
        raise ConfigError(
            f"{step} takes a function that returns a key, or the position or name of a field; "
            f"got {type(key_selector).__name__}"
        )
    return read
