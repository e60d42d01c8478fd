"""Tracebacks of user functions: the user's frames, without the frames of the engine.

Example:
    >>> import json
    >>> try:
    ...     json.loads("no")
    ... except ValueError as caught:
    ...     error = caught
    >>> hide_engine(error)
    >>> error.__traceback__.tb_frame.f_code.co_name
    'loads'

Pickling an exception drops its traceback and its causes. `carry` keeps both, and `arrive` restores the exception in the
other process, so that it is shown as if it had been raised there.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType, FunctionType, TracebackType

from tidegate.errors import ConfigError, InternalError
from tidegate.runtime.shipping import pack, unpack

__all__ = ["Carried", "arrive", "carry", "hide_engine"]


@dataclass(frozen=True, slots=True)
class _Place:
    """One frame of a traceback."""

    module: str
    file: str
    function: str
    line: int


@dataclass(frozen=True, slots=True)
class Carried:
    """An exception with its traceback and causes, serialised for another process.

    If its class cannot be unpickled there, its class name and text replace it.
    """

    packed: bytes | None
    module: str
    name: str
    text: str
    places: tuple[_Place, ...]
    cause: Carried | None
    context: Carried | None
    suppress_context: bool


def hide_engine(error: BaseException | None) -> None:
    """Remove the engine's frames from the tracebacks of an error and its causes, except for an `InternalError`."""
    chain = list(_chain(error, []))
    if not any(isinstance(each, InternalError) for each in chain):
        for each in chain:
            each.__traceback__ = _without_engine(each.__traceback__)


def carry(error: BaseException | None) -> Carried | None:
    """Serialise an exception with its traceback and its causes."""
    return _carry(error, [])


def arrive(carried: Carried | None) -> BaseException | None:
    """Restore an exception with its traceback and its causes."""
    if carried is None:
        return None
    error = _unpacked(carried)
    error.__cause__ = arrive(carried.cause)
    error.__context__ = error.__cause__ or arrive(carried.context)
    error.__suppress_context__ = carried.suppress_context
    for place in reversed(carried.places):
        error.__traceback__ = TracebackType(error.__traceback__, _frame(place), -1, place.line)
    return error


def _chain(error: BaseException | None, seen: list[BaseException]) -> Iterator[BaseException]:
    if error is not None and not any(error is each for each in seen):
        seen.append(error)
        yield error
        yield from _chain(error.__cause__, seen)
        yield from _chain(error.__context__, seen)


def _without_engine(trace: TracebackType | None) -> TracebackType | None:
    if trace is None:
        return None
    rest = _without_engine(trace.tb_next)
    module: str = trace.tb_frame.f_globals.get("__name__", "")
    if module.startswith("tidegate.") or trace.tb_frame.f_code.co_filename.startswith("<tidegate "):
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def _carry(error: BaseException | None, seen: list[BaseException]) -> Carried | None:
    if error is None or any(error is each for each in seen):
        return None
    seen.append(error)
    packed = None
    with contextlib.suppress(ConfigError):
        packed = pack("an exception", error)
    return Carried(
        packed,
        type(error).__module__,
        type(error).__qualname__,
        str(error),
        tuple(
            _Place(frame.f_globals.get("__name__", ""), frame.f_code.co_filename, frame.f_code.co_name, line)
            for frame, line in traceback.walk_tb(error.__traceback__)
        ),
        _carry(error.__cause__, seen),
        _carry(error.__context__, seen),
        error.__suppress_context__,
    )


def _unpacked(carried: Carried) -> BaseException:
    # An error while a user's exception class is unpickled must not hide the original error.
    with contextlib.suppress(Exception):
        if carried.packed is not None and isinstance(error := unpack(carried.packed), BaseException):
            return error
    stand_in: type[Exception] = type(carried.name, (Exception,), {"__module__": carried.module})
    return stand_in(carried.text)


def _frame(place: _Place) -> FrameType:
    """A frame with the names of `place`; only running code has frames, so generated code with these names is run."""
    code = compile("raise LookupError", place.file, "exec")
    code = code.replace(co_name=place.function, co_firstlineno=place.line)
    try:
        FunctionType(code, {"__name__": place.module})()
    except LookupError as raised:
        *_, (frame, _) = traceback.walk_tb(raised.__traceback__)
        return frame
    raise InternalError("the compiled raise statement did not raise")
