"""Typed options, under PyFlink's module name."""

from tidegate.runtime.stream.configuration import ConfigOption as ConfigOption, ConfigOptions as ConfigOptions

__all__ = ["ConfigOption", "ConfigOptions"]
