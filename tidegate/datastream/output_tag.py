"""Output tags of side outputs, under PyFlink's module name."""

from tidegate.runtime.stream.tags import OutputTag as OutputTag

__all__ = ["OutputTag"]
