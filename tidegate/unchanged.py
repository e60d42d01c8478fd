"""Value of a column that an update did not change and that the log of the database therefore leaves out.

Postgres does so for long values that are stored apart from their row. `UNCHANGED` is neither NULL nor a default: a sink
leaves such a column as it is.

Example:
    >>> from tidegate.untyped import SelfDescribing
    >>> codec = SelfDescribing()
    >>> codec.decode(codec.encode(UNCHANGED)) is UNCHANGED
    True
"""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = ["UNCHANGED", "Unchanged"]


class Unchanged(Enum):
    """Class of `UNCHANGED`."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged.UNCHANGED
"""The one value of its class."""
