"""Event-sourced state, exactly-once connectors and a dataflow runtime, on one machine or on Spark.

Names load when they are first used, so `import tidegate` is quick and needs no optional library.

Example:
    >>> import tidegate
    >>> env = tidegate.StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    >>> sorted(env.from_collection([3, 1, 2]).map(lambda n: n * n).execute_and_collect())
    [1, 4, 9]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.backends.keyed.descriptors import ValueStateDescriptor as ValueStateDescriptor
    from tidegate.connectors.collection import CollectionSource as CollectionSource
    from tidegate.connectors.files import FileSink as FileSink, JsonLines as JsonLines, TextLines as TextLines
    from tidegate.connectors.generator import GeneratorSource as GeneratorSource
    from tidegate.connectors.print import PrintSink as PrintSink
    from tidegate.errors import TidegateError as TidegateError
    from tidegate.runtime.result import JobResult as JobResult
    from tidegate.runtime.stream.datastream import DataStream as DataStream, KeyedStream as KeyedStream
    from tidegate.runtime.stream.environment import StreamExecutionEnvironment as StreamExecutionEnvironment
    from tidegate.runtime.stream.functions import KeyedProcessFunction as KeyedProcessFunction
    from tidegate.types import Row as Row, Types as Types

_NAMES = {
    "backends.keyed.descriptors": ("ValueStateDescriptor",),
    "connectors.collection": ("CollectionSource",),
    "connectors.files": ("FileSink", "JsonLines", "TextLines"),
    "connectors.generator": ("GeneratorSource",),
    "connectors.print": ("PrintSink",),
    "errors": ("TidegateError",),
    "runtime.result": ("JobResult",),
    "runtime.stream.datastream": ("DataStream", "KeyedStream"),
    "runtime.stream.environment": ("StreamExecutionEnvironment",),
    "runtime.stream.functions": ("KeyedProcessFunction",),
    "types": ("Row", "Types"),
}
_HOMES = {name: f"tidegate.{module}" for module, names in _NAMES.items() for name in names}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
