"""Number sequence source, under PyFlink's module name."""

from tidegate.connectors.generator import NumberSequenceSource as NumberSequenceSource

__all__ = ["NumberSequenceSource"]
