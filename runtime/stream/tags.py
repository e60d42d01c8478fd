"""Output tags of side outputs."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.errors import ConfigError
from tidegate.types import TypeInformation

__all__ = ["OutputTag"]


@dataclass(frozen=True)
class OutputTag:
    """Names a side output: a process function yields `(tag, value)`, `get_side_output(tag)` is the stream of them.

    Example:
        >>> OutputTag("late") == OutputTag("late")
        True
    """

    tag_id: str
    type_info: TypeInformation | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.tag_id:
            raise ConfigError("the name of a side output is empty; give it a name")
