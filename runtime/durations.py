"""Readable durations."""

from __future__ import annotations

__all__ = ["readable_age"]


def readable_age(milliseconds: int) -> str:
    """A duration as a short text.

    Example:
        >>> [readable_age(ms) for ms in (400, 4_000, 600_000, 7_300_000, 400_000_000)]
        ['0.4 s', '4 s', '10 min', '2 h', '4 days']
    """
    seconds = milliseconds / 1000
    steps = ((172_800, 86_400, "days"), (7_200, 3_600, "h"), (120, 60, "min"), (1, 1, "s"))
    for least, unit, name in steps:
        if seconds >= least:
            return f"{seconds // unit:.0f} {name}"
    return f"{seconds:.1f} s"
