"""Event-sourced state, exactly-once connectors and a dataflow runtime, on one machine or on Spark.

Names load when they are first used, so `import tidegate` is quick and needs no optional library.

Example:
    >>> import tidegate
    >>> env = tidegate.StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    >>> sorted(env.from_collection([3, 1, 2]).map(lambda n: n * n).execute_and_collect())
    [1, 4, 9]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.backends.keyed.descriptors import ValueStateDescriptor as ValueStateDescriptor
    from tidegate.connectors.collection import CollectionSource as CollectionSource
    from tidegate.connectors.files import FileSink as FileSink
    from tidegate.connectors.files import JsonLines as JsonLines
    from tidegate.connectors.files import TextLines as TextLines
    from tidegate.connectors.generator import GeneratorSource as GeneratorSource
    from tidegate.connectors.print import PrintSink as PrintSink
    from tidegate.errors import TidegateError as TidegateError
    from tidegate.runtime.result import JobResult as JobResult
    from tidegate.runtime.stream.datastream import DataStream as DataStream
    from tidegate.runtime.stream.datastream import KeyedStream as KeyedStream
    from tidegate.runtime.stream.environment import StreamExecutionEnvironment as StreamExecutionEnvironment
    from tidegate.runtime.stream.functions import FilterFunction as FilterFunction
    from tidegate.runtime.stream.functions import FlatMapFunction as FlatMapFunction
    from tidegate.runtime.stream.functions import KeyedProcessFunction as KeyedProcessFunction
    from tidegate.runtime.stream.functions import KeySelector as KeySelector
    from tidegate.runtime.stream.functions import MapFunction as MapFunction
    from tidegate.types import Row as Row
    from tidegate.types import Types as Types

_HOMES = {
    "CollectionSource": "tidegate.connectors.collection",
    "DataStream": "tidegate.runtime.stream.datastream",
    "FileSink": "tidegate.connectors.files",
    "FilterFunction": "tidegate.runtime.stream.functions",
    "FlatMapFunction": "tidegate.runtime.stream.functions",
    "GeneratorSource": "tidegate.connectors.generator",
    "JobResult": "tidegate.runtime.result",
    "JsonLines": "tidegate.connectors.files",
    "KeySelector": "tidegate.runtime.stream.functions",
    "KeyedProcessFunction": "tidegate.runtime.stream.functions",
    "KeyedStream": "tidegate.runtime.stream.datastream",
    "MapFunction": "tidegate.runtime.stream.functions",
    "PrintSink": "tidegate.connectors.print",
    "Row": "tidegate.types",
    "StreamExecutionEnvironment": "tidegate.runtime.stream.environment",
    "TextLines": "tidegate.connectors.files",
    "TidegateError": "tidegate.errors",
    "Types": "tidegate.types",
    "ValueStateDescriptor": "tidegate.backends.keyed.descriptors",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
