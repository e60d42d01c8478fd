"""Changelog mode of a table: which kinds of changes its rows may be.

Example:
    >>> print(ChangelogMode.upsert())
    [INSERT, UPDATE_AFTER, DELETE]
    >>> ChangelogMode.insert_only() <= ChangelogMode.upsert(), ChangelogMode.upsert().short
    (True, 'I,UA,D')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tidegate.elements import RowKind
from tidegate.errors import ConfigError

__all__ = ["ChangelogMode", "RowKinds"]

RowKinds: TypeAlias = Literal["any", "rows", "insert-only"]
"""Which changes are accepted: all, those of rows, which contain their kind, or insertions only."""

_SHORT: Final = {
    RowKind.INSERT: "I",
    RowKind.UPDATE_BEFORE: "UB",
    RowKind.UPDATE_AFTER: "UA",
    RowKind.DELETE: "D",
}


@dataclass(frozen=True, slots=True)
class ChangelogMode:
    """A set of row kinds.

    Args:
        kinds: The kinds that may occur. UPDATE_BEFORE occurs only with the UPDATE_AFTER that follows it.
        key_only_deletes: Whether a DELETE may have its key columns only, and None in all others.

    Raises:
        ConfigError: the kinds are not a changelog mode.
    """

    kinds: frozenset[RowKind]
    key_only_deletes: bool = False

    def __post_init__(self) -> None:
        if RowKind.UPDATE_BEFORE in self.kinds and RowKind.UPDATE_AFTER not in self.kinds:
            raise ConfigError(f"changelog mode {self} has UPDATE_BEFORE alone; expected UPDATE_AFTER with it")
        if self.key_only_deletes and RowKind.DELETE not in self.kinds:
            raise ConfigError(
                f"changelog mode {self} has deletes by key without DELETE; expected DELETE with it"
            )

    @staticmethod
    def of(kinds: Iterable[RowKind]) -> ChangelogMode:
        """The mode of these kinds."""
        return ChangelogMode(frozenset(kinds))

    @staticmethod
    def insert_only() -> ChangelogMode:
        """Rows are added and never change."""
        return ChangelogMode(frozenset({RowKind.INSERT}))

    @staticmethod
    def upsert(key_only_deletes: bool = False) -> ChangelogMode:
        """An update is the new row; a key identifies the row that it replaces."""
        kinds = {RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE}
        return ChangelogMode(frozenset(kinds), key_only_deletes)

    @staticmethod
    def all() -> ChangelogMode:
        """An update is the old row and the new row; also called retract."""
        return ChangelogMode(frozenset(RowKind))

    retract = all

    def contains(self, kind: RowKind) -> bool:
        """Whether this kind may occur."""
        return kind in self.kinds

    def contains_only(self, kind: RowKind) -> bool:
        """Whether no other kind may occur."""
        return self.kinds == {kind}

    @property
    def updates_by_key(self) -> bool:
        """Whether an update lacks the old row, so that a key is needed."""
        return RowKind.UPDATE_AFTER in self.kinds and RowKind.UPDATE_BEFORE not in self.kinds

    @property
    def short(self) -> str:
        """The kinds as plans show them: `I,UB,UA,D`."""
        return ",".join(_SHORT[kind] for kind in self)

    def __iter__(self) -> Iterator[RowKind]:
        return iter(sorted(self.kinds))

    def __le__(self, other: ChangelogMode) -> bool:
        """Whether a receiver of `other` accepts this."""
        return self.kinds <= other.kinds and self.key_only_deletes <= other.key_only_deletes

    def __or__(self, other: ChangelogMode) -> ChangelogMode:
        return ChangelogMode(self.kinds | other.kinds, self.key_only_deletes or other.key_only_deletes)

    def __and__(self, other: ChangelogMode) -> ChangelogMode:
        return ChangelogMode(self.kinds & other.kinds, self.key_only_deletes and other.key_only_deletes)

    def __sub__(self, other: ChangelogMode) -> frozenset[RowKind]:
        """The kinds that the other mode does not have; they are not always a mode."""
        return self.kinds - other.kinds

    def __str__(self) -> str:
        return f"[{', '.join(kind.name for kind in self)}]"
