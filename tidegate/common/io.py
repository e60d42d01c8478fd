"""Input formats, under PyFlink's module name: sources."""

from tidegate.connectors.spi import Source as InputFormat

__all__ = ["InputFormat"]
