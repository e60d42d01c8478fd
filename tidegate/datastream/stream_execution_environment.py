"""Stream execution environment, under PyFlink's module name."""

from tidegate.runtime.stream.environment import StreamExecutionEnvironment as StreamExecutionEnvironment

__all__ = ["StreamExecutionEnvironment"]
