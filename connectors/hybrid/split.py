"""Split of a hybrid source: a split of one stage, with what is needed to recreate the source of that stage."""

from __future__ import annotations

from typing import Any

import msgspec

from tidegate.connectors.spi import Source, Split
from tidegate.ids import SplitId

__all__ = ["HybridSplit"]


class HybridSplit(Split, frozen=True, tag_field="v", tag=1):
    """`split` is encoded; `end` is where the stage before ended, encoded, for stages that are made of that."""

    stage: int
    split: bytes
    end: bytes | None = None

    @classmethod
    def of(cls, stage: int, split: Split, end: bytes | None) -> HybridSplit:
        """A split of a stage."""
        return cls(name_of(stage, split.id), stage, msgspec.msgpack.encode(split), end)

    def within(self, source: Source[Any]) -> Any:
        """The split of the stage's source."""
        return msgspec.msgpack.decode(self.split, type=source.split_type)


def name_of(stage: int, split: str) -> SplitId:
    """A split's name among those of all stages."""
    return SplitId(f"{stage}:{split}")
