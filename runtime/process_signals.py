"""Linux process timers and parent-death signals, which kill a process even while it is stopped.

A process that was stopped for longer than its owner's lease must not execute another instruction. A check in the
process cannot ensure that, because the process may be stopped right after it; a kernel signal can, because the kernel
delivers it before the process continues.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from typing import Final

from tidegate.errors import UnavailableError

__all__ = ["KillTimer", "die_with_parent"]

_CLOCK_BOOTTIME: Final = 7
"""A clock that also counts while the machine is suspended."""
_SIGEV_SIGNAL: Final = 0
_PR_SET_PDEATHSIG: Final = 1


class _SignalEvent(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("number", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("unused", ctypes.c_char * 48),
    )


class _TimerSpec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class KillTimer:
    """A kernel timer that kills this process when it expires; setting it again postpones that.

    Raises:
        UnavailableError: the kernel refused the timer.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._id = ctypes.c_void_p()
        event = _SignalEvent(number=signal.SIGKILL, notify=_SIGEV_SIGNAL)
        self._check(self._libc.timer_create(_CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(self._id)))

    def set(self, seconds: float | None) -> None:
        """Set the time until the kill in seconds; zero or less kills at once, None disarms the timer."""
        spec = _TimerSpec()
        if seconds is not None:
            # A time of zero would disarm the timer.
            spec.value_s, spec.value_ns = divmod(max(1, int(seconds * 1e9)), 1_000_000_000)
        self._check(self._libc.timer_settime(self._id, 0, ctypes.byref(spec), None))

    def close(self) -> None:
        """Delete the timer."""
        self._check(self._libc.timer_delete(self._id))

    def _check(self, result: int) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise UnavailableError(
                f"the kernel refused the timer that kills a stalled worker ({errno.errorcode.get(number, number)}: "
                f"{os.strerror(number)}); see the limit of pending signals (ulimit -i) and the sandbox of this process"
            )


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
