"""Type information, under PyFlink's module name."""

from tidegate.types import TypeInformation as TypeInformation, Types as Types

__all__ = ["TypeInformation", "Types"]
