"""What connectors implement, under PyFlink's module name."""

from tidegate.connectors.spi import Sink as Sink, Source as Source

__all__ = ["Sink", "Source"]
