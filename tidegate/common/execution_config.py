"""Execution configuration, under PyFlink's module name."""

from tidegate.runtime.stream.execution_config import ExecutionConfig as ExecutionConfig

__all__ = ["ExecutionConfig"]
