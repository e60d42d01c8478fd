"""Types, rows, time and watermarks, under the names PyFlink gives them in `pyflink.common`."""

from tidegate.elements import RowKind as RowKind
from tidegate.runtime.result import JobResult as JobResult
from tidegate.runtime.stream.time import Duration as Duration, Time as Time
from tidegate.runtime.stream.watermarks import WatermarkStrategy as WatermarkStrategy
from tidegate.types import Row as Row, TypeInformation as TypeInformation, Types as Types

__all__ = [
    "Duration",
    "JobResult",
    "Row",
    "RowKind",
    "Time",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]
