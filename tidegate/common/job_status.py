"""Job status, under PyFlink's module name."""

from tidegate.runtime.client import JobStatus as JobStatus

__all__ = ["JobStatus"]
