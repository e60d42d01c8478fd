"""Restart of a program in the same process: whether it is possible, and whether it was requested."""

from __future__ import annotations

import threading

from tidegate.errors import ConfigError

__all__ = ["RESTARTING", "Restarting"]


class Restarting:
    """Whether a restart in this process is offered, and whether it was requested."""

    def __init__(self) -> None:
        self.offered = False
        self._asked = threading.Event()

    @property
    def asked(self) -> bool:
        """Whether a restart of the program was requested."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Request that the program is started again after it has ended.

        Raises:
            ConfigError: a restart is not offered.
        """
        if not self.offered:
            raise ConfigError(
                "a restart needs a job that was started by 'tidegate run'; this one was not; stop the job and start the "
                "program again"
            )
        self._asked.set()


RESTARTING = Restarting()
