"""Job results, under PyFlink's module name."""

from tidegate.runtime.result import JobResult as JobExecutionResult

__all__ = ["JobExecutionResult"]
