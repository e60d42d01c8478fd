"""Job ids, under PyFlink's module name."""

from tidegate.ids import RunId as JobID

__all__ = ["JobID"]
