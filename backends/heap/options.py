"""Options of the heap backend."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.options import check_ranges, option

__all__ = ["HeapOptions"]


@dataclass(frozen=True, slots=True)
class HeapOptions:
    """How much state it takes."""

    max_state_bytes: int = option(
        "state.backend.heap.max-state", 5 * 1024 * 1024, "maximum size of one state of a subtask"
    )

    def __post_init__(self) -> None:
        check_ranges(self)
