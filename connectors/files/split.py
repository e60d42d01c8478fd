"""A part of a text file: the lines that begin within a range of bytes.

Example:
    >>> [(part.at, part.stop) for part in parts("/data/log", size=10, most=4)]
    [(0, 4), (4, 8), (8, 10)]
"""

from __future__ import annotations

from tidegate.connectors.spi import Split
from tidegate.ids import SplitId

__all__ = ["FileSplit", "parts"]


class FileSplit(Split, frozen=True, tag_field="v", tag=1):
    """What is left of a part: `at` is the next byte, a line's first one once the part was begun."""

    path: str
    at: int
    stop: int
    begun: bool = False


def parts(path: str, *, size: int, most: int) -> list[FileSplit]:
    """A file in parts of at most `most` bytes; a line belongs to the part its first byte is in."""
    return [
        FileSplit(id=SplitId(f"{path}:{start}"), path=path, at=start, stop=min(start + most, size))
        for start in range(0, size, most)
    ]
