"""What a program says about a state it wants: a name, a type, a default. Names are PyFlink's.

Example:
    >>> ValueStateDescriptor("count", default=0).get_name()
    'count'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.types import TypeInformation

__all__ = ["StateDescriptor", "ValueStateDescriptor"]


@dataclass(frozen=True, slots=True)
class StateDescriptor:
    """Names a state within its operator; the name finds it again after a restore.

    `type_info` None means untyped: any value that the self-describing codec carries.
    """

    name: str
    type_info: TypeInformation | None = None

    def get_name(self) -> str:
        """The name."""
        return self.name


@dataclass(frozen=True, slots=True)
class ValueStateDescriptor(StateDescriptor):
    """One value per key; `default` is what `value()` answers while there is none.

    A mutable default is copied for each key and stored with the first read, so changing it in place counts.
    """

    default: Any = None
