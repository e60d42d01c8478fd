"""Types, rows, time and watermarks, under the names PyFlink gives them in `pyflink.common`."""

from concurrent.futures import Future as CompletableFuture

from tidegate.connectors.formats import (
    ByteArraySchema as ByteArraySchema,
    DeserializationSchema as DeserializationSchema,
    Encoder as Encoder,
    SerializationSchema as SerializationSchema,
    SimpleStringSchema as SimpleStringSchema,
)
from tidegate.elements import RowKind as RowKind
from tidegate.ids import RunId as JobID
from tidegate.runtime.accumulators import (
    Accumulator as Accumulator,
    DoubleCounter as DoubleCounter,
    Histogram as Histogram,
    IntCounter as IntCounter,
    LongCounter as LongCounter,
)
from tidegate.runtime.client import JobClient as JobClient, JobStatus as JobStatus
from tidegate.runtime.result import JobResult as JobExecutionResult, JobResult as JobResult
from tidegate.runtime.stream.configuration import (
    ConfigOption as ConfigOption,
    ConfigOptions as ConfigOptions,
    Configuration as Configuration,
)
from tidegate.runtime.stream.execution_config import ExecutionConfig as ExecutionConfig
from tidegate.runtime.stream.parameters import ParameterTool as ParameterTool
from tidegate.runtime.stream.restart_strategies import (
    RestartStrategies as RestartStrategies,
    RestartStrategyConfiguration as RestartStrategyConfiguration,
)
from tidegate.runtime.stream.time import Duration as Duration, Instant as Instant, Time as Time
from tidegate.runtime.stream.watermarks import WatermarkStrategy as WatermarkStrategy
from tidegate.types import Row as Row, TypeInformation as TypeInformation, Types as Types

__all__ = [
    "Accumulator",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "DoubleCounter",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "Histogram",
    "Instant",
    "IntCounter",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobResult",
    "JobStatus",
    "LongCounter",
    "ParameterTool",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]
