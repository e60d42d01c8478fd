"""A running job, under PyFlink's module name."""

from tidegate.runtime.client import JobClient as JobClient

__all__ = ["JobClient"]
