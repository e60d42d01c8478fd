"""Exit codes of failures, the same for `tidegate run` and `python job.py`."""

from __future__ import annotations

import sys
from types import TracebackType

from tidegate.errors import (
    CommitFailedError,
    CommitUnknownError,
    ConfigError,
    FencedError,
    MissingExtraError,
    TidegateError,
)

__all__ = ["exit_code", "exit_with_codes"]

_EXIT_CODES: tuple[tuple[type[TidegateError], int], ...] = (
    (FencedError, 3),
    (CommitFailedError, 4),
    (CommitUnknownError, 4),
    (ConfigError, 2),
    (MissingExtraError, 2),
)


def exit_code(error: TidegateError) -> int:
    """The exit code of an error."""
    return next((code for cls, code in _EXIT_CODES if isinstance(error, cls)), 1)


def exit_with_codes() -> None:
    """Let this process end with the exit code of `tidegate run` after a tidegate error; the traceback stays the same."""
    shown = sys.excepthook
    if getattr(shown, "gives_exit_codes", False):
        return

    def show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        shown(kind, error, traceback)
        # In an interactive interpreter an error does not end the process.
        if isinstance(error, TidegateError) and not (hasattr(sys, "ps1") or sys.flags.interactive):
            raise SystemExit(exit_code(error))

    show.gives_exit_codes = True  # type: ignore[attr-defined]  # an attribute of a function
    sys.excepthook = show
