"""Contract of formats whose messages say how a row changed, such as Debezium's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from tidegate.changelog import ChangelogMode
from tidegate.elements import RowKind
from tidegate.types import TypeInformation

__all__ = ["ChangeFormat"]


class ChangeFormat(ABC):
    """Changes of rows as messages, in both directions. Picklable and without state; called by the subtask's thread."""

    @property
    @abstractmethod
    def produced_type(self) -> TypeInformation:
        """The type of the rows."""

    @property
    def changelog_mode(self) -> ChangelogMode:
        """The kinds of the changes that messages may hold."""
        return ChangelogMode.all()

    @abstractmethod
    def decode(self, message: bytes | None) -> Sequence[tuple[RowKind, Any]]:
        """The changes of a message, in order; none for one that changes no row, such as a tombstone.

        Raises:
            RecordError: the message is not of this format.
        """

    @abstractmethod
    def encode(self, kind: RowKind, row: Any) -> bytes:
        """The message of a change.

        Raises:
            RecordError: the row is not of the type.
        """
