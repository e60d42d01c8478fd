"""Slot sharing groups, under PyFlink's module name."""

from tidegate.runtime.stream.slot_sharing import (
    MemorySize as MemorySize,
    SlotSharingGroup as SlotSharingGroup,
)

__all__ = ["MemorySize", "SlotSharingGroup"]
