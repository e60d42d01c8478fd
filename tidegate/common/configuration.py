"""Configuration, under PyFlink's module name."""

from tidegate.runtime.stream.configuration import Configuration as Configuration

__all__ = ["Configuration"]
