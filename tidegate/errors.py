"""Error classes of tidegate, classified by what the reader has to do next.

All derive from `TidegateError` and survive pickling, because they cross processes.

Example:
    >>> import pickle
    >>> pickle.loads(pickle.dumps(ConfigError("unknown option 'statte'")))
    ConfigError("unknown option 'statte'")
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "CommitFailedError",
    "CommitUnknownError",
    "ConfigError",
    "FencedError",
    "InternalError",
    "JobCancelledError",
    "JobFailedError",
    "MissingExtraError",
    "RecordError",
    "StateCorruptError",
    "StateFormatError",
    "TidegateError",
    "UnavailableError",
    "UserCodeError",
]


class TidegateError(Exception):
    """Base of all errors tidegate raises on purpose; catch it to catch them all."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The interpreter keeps notes among the attributes too; carried once, they are shown once.
        state = {name: value for name, value in self.__dict__.items() if name != "__notes__"}
        return (_rebuild, (type(self), self.args, state, tuple(getattr(self, "__notes__", ()))))


class ConfigError(TidegateError, ValueError):
    """The program, an option or the command line is wrong; fix what the message names."""


class MissingExtraError(TidegateError, ImportError):
    """An optional library is not installed; run the command in the message."""


class UnavailableError(TidegateError):
    """An external system or storage did not answer; the operation can be tried again."""


class FencedError(TidegateError):
    """A newer owner exists; this process must stop and must not try again."""


class CommitFailedError(TidegateError):
    """The outcome is known and is not what was decided; the message says what is visible and how to continue."""


class CommitUnknownError(TidegateError):
    """It is unknown whether a commit happened; check the external system before anything else."""


class StateFormatError(TidegateError):
    """State cannot be read into its declaration: another version or type wrote it, or it is too large; the message says
    whether to restore an older one, migrate or move."""


class StateCorruptError(TidegateError):
    """State is damaged or a file is gone; restore an older checkpoint."""


class RecordError(TidegateError, ValueError):
    """A record or key cannot be encoded or converted without changing it; the message says what to use instead."""


class UserCodeError(TidegateError):
    """A user function raised; its own exception is the cause, the message names the record's origin."""

    record: str | None = None
    """The record it failed on, if the same failure is to be expected each time: not if a file or connection failed."""


class JobFailedError(TidegateError):
    """The job ended in failure; the cause is the last failure, restarts are exhausted."""


class JobCancelledError(TidegateError):
    """The job was cancelled; decided output is visible, other output is removed."""


class InternalError(TidegateError):
    """An invariant of tidegate itself does not hold; please report it with the message."""


def _rebuild(
    cls: type[TidegateError], args: tuple[Any, ...], state: dict[str, Any], notes: tuple[str, ...]
) -> TidegateError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    for note in notes:
        error.add_note(note)
    return error
