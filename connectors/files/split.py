"""Split of the file source: a byte range of a line-based file, a row range of any other.

Example:
    >>> [(part.at, part.stop) for part in parts("/data/log", size=10, most=4)]
    [(0, 4), (4, 8), (8, 10)]
"""

from __future__ import annotations

from tidegate.connectors.spi import Split
from tidegate.ids import SplitId

__all__ = ["FileSplit", "parts"]


class FileSplit(Split, frozen=True, tag_field="v", tag=1):
    """What is left of a part: `at` is where the next record begins, exactly so once the part was begun."""

    path: str
    at: int
    stop: int
    begun: bool = False


def parts(path: str, *, size: int, most: int) -> list[FileSplit]:
    """A file in parts of at most `most`; a record belongs to the part in which it begins."""
    return [
        FileSplit(id=SplitId(f"{path}:{start}"), path=path, at=start, stop=min(start + most, size))
        for start in range(0, size, most)
    ]
