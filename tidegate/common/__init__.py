"""Types, rows, time and watermarks, under the names PyFlink gives them in `pyflink.common`."""

from tidegate.elements import RowKind as RowKind
from tidegate.runtime.accumulators import (
    Accumulator as Accumulator,
    DoubleCounter as DoubleCounter,
    Histogram as Histogram,
    IntCounter as IntCounter,
    LongCounter as LongCounter,
)
from tidegate.runtime.client import JobClient as JobClient, JobStatus as JobStatus
from tidegate.runtime.result import JobResult as JobExecutionResult, JobResult as JobResult
from tidegate.runtime.stream.execution_config import ExecutionConfig as ExecutionConfig
from tidegate.runtime.stream.parameters import ParameterTool as ParameterTool
from tidegate.runtime.stream.time import Duration as Duration, Time as Time
from tidegate.runtime.stream.watermarks import WatermarkStrategy as WatermarkStrategy
from tidegate.types import Row as Row, TypeInformation as TypeInformation, Types as Types

__all__ = [
    "Accumulator",
    "DoubleCounter",
    "Duration",
    "ExecutionConfig",
    "Histogram",
    "IntCounter",
    "JobClient",
    "JobExecutionResult",
    "JobResult",
    "JobStatus",
    "LongCounter",
    "ParameterTool",
    "Row",
    "RowKind",
    "Time",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]
