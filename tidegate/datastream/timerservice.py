"""Timer service, under PyFlink's module name."""

from tidegate.runtime.stream.functions import TimerService as TimerService

__all__ = ["TimerService"]
