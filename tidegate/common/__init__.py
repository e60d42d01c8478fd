"""Types and rows, under the names PyFlink gives them in `pyflink.common`."""

from tidegate.elements import RowKind as RowKind
from tidegate.runtime.result import JobResult as JobResult
from tidegate.types import Row as Row, TypeInformation as TypeInformation, Types as Types

__all__ = ["JobResult", "Row", "RowKind", "TypeInformation", "Types"]
