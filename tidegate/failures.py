"""Failures of code that is not ours: the error to raise when a user function or a connector ends by an exception.

Such code may end by more than an `Exception`: `sys.exit()`, a task that was cancelled, a `KeyboardInterrupt` of a
library. Each of these is caught where the code is called, because an end that we did not ask for is a failure; one
that passes a handler ends a thread without a word, and the job waits for its answer for ever.

Example:
    >>> failure_of("operator 'ask' failed on record 1", SystemExit(3))
    UserCodeError("operator 'ask' failed on record 1: SystemExit: 3")
"""

from __future__ import annotations

from tidegate.errors import InternalError, TidegateError, UserCodeError

__all__ = ["called", "end_of", "failure_of"]


def failure_of(where: str, error: BaseException) -> TidegateError:
    """The error to raise from `error`: one of ours keeps its class, any other is a `UserCodeError`.

    Args:
        where: The function, its operator, and the record if it is known.
        error: What it raised.
    """
    kind = type(error) if isinstance(error, TidegateError) else UserCodeError
    return kind(f"{where}: {called(error)}")


def end_of(where: str, error: BaseException) -> TidegateError:
    """The error to report for whatever ended work of the engine in which no user function is known.

    One of ours is reported as it is, and any other `Exception` is a defect of the engine. What is no `Exception` the
    engine never raises there, so it came from the program or a connector.
    """
    if isinstance(error, TidegateError):
        return error
    if isinstance(error, Exception):
        failure: TidegateError = InternalError(f"{where}: {called(error)}")
    else:
        failure = UserCodeError(f"{where} was ended by the program or a connector: {called(error)}")
    failure.__cause__ = error
    return failure


def called(error: BaseException) -> str:
    """An exception by class and text; some, such as `CancelledError`, have no text."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
