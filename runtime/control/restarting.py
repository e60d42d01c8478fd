"""Restart of a program in the same process: whether it is possible, and whether it was requested."""

from __future__ import annotations

import threading

from tidegate.errors import ConfigError

__all__ = ["RESTARTING", "Restarting"]


class Restarting:
    """An offer of whoever runs the program, and whether somebody has taken it."""

    def __init__(self) -> None:
        self.offered = False
        self._asked = threading.Event()

    @property
    def asked(self) -> bool:
        """Whether the program shall be started anew."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Have the program started anew once it has ended.

        Raises:
            ConfigError: nobody would.
        """
        if not self.offered:
            raise ConfigError(
                "a restart needs a job that was started by 'tidegate run'; this one was not; stop the job and start the "
                "program again"
            )
        self._asked.set()


RESTARTING = Restarting()
