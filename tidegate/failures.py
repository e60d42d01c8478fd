"""Error translation for exceptions of user functions and connectors.

Such code may end by more than an `Exception`: `sys.exit()`, a task that was cancelled, a `KeyboardInterrupt` of a
library. Each of these is caught where the code is called, because an end that we did not ask for is a failure; one
that passes a handler ends a thread silently, and the job waits for its answer forever.

Example:
    >>> failure_of("operator 'ask' failed on record 1", SystemExit(3))
    UserCodeError("operator 'ask' failed on record 1: SystemExit: 3")
"""

from __future__ import annotations

from tidegate.errors import InternalError, TidegateError, UserCodeError

__all__ = ["called", "end_of", "failure_of"]


def failure_of(where: str, error: BaseException) -> TidegateError:
    """The error to raise from `error`: a `TidegateError` keeps its class, any other is a `UserCodeError`.

    Args:
        where: The function, its operator, and the record if it is known.
        error: What it raised.
    """
    kind = type(error) if isinstance(error, TidegateError) else UserCodeError
    return kind(f"{where}: {called(error)}")


def end_of(where: str, error: BaseException) -> TidegateError:
    """The error to report for an exception in engine code without a known user function.

    A `TidegateError` is reported as it is; any other `Exception` is a defect of the engine. Other exceptions the
    engine never raises there, so it came from the program or a connector.
    """
    if isinstance(error, TidegateError):
        return error
    if isinstance(error, Exception):
        failure: TidegateError = InternalError(f"{where}: {called(error)}")
    else:
        failure = UserCodeError(f"{where} failed in user or connector code: {called(error)}")
    failure.__cause__ = error
    return failure


def called(error: BaseException) -> str:
    """An exception by class and text; some, such as `CancelledError`, have no text."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
