"""Execution modes, under PyFlink's module name."""

from tidegate.runtime.stream.execution_config import RuntimeExecutionMode as RuntimeExecutionMode

__all__ = ["RuntimeExecutionMode"]
