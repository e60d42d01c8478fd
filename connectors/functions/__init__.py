"""Source and sink functions, under the names of Flink's older API."""

from __future__ import annotations

from tidegate.connectors.functions.sink import (
    FunctionSink as FunctionSink,
    SinkContext as SinkContext,
    SinkFunction as SinkFunction,
)
from tidegate.connectors.functions.source import (
    FunctionSource as FunctionSource,
    ParallelSourceFunction as ParallelSourceFunction,
    SourceContext as SourceContext,
    SourceFunction as SourceFunction,
)
from tidegate.connectors.functions.transactions import (
    TransactionalFunctionSink as TransactionalFunctionSink,
    TransactionalFunctionWriter as TransactionalFunctionWriter,
    as_sink as as_sink,
)

__all__ = [
    "FunctionSink",
    "FunctionSource",
    "ParallelSourceFunction",
    "SinkContext",
    "SinkFunction",
    "SourceContext",
    "SourceFunction",
    "TransactionalFunctionSink",
    "TransactionalFunctionWriter",
    "as_sink",
]
