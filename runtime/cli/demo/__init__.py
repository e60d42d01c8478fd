"""`tidegate demo`: a pipeline that is killed three times and checked to the record."""

from tidegate.runtime.cli.demo.command import register as register

__all__ = ["register"]
