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

Pickling an exception drops its traceback and its causes. `pack_error` keeps both, and `unpack_error` restores the exception in the
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

__all__ = ["PackedError", "hide_engine", "pack_error", "unpack_error"]


@dataclass(frozen=True, slots=True)
class _Place:
    """One frame of a traceback."""

    module: str
    file: str
    function: str
    line: int


@dataclass(frozen=True, slots=True)
class PackedError:
    """An exception with its traceback and causes, serialised for another process.

    If its class cannot be unpickled there, its class name and text replace it.
    """

    packed: bytes | None
    module: str
    name: str
    text: str
    places: tuple[_Place, ...]
    cause: PackedError | None
    context: PackedError | None
    suppress_context: bool


def hide_engine(error: BaseException | None) -> None:
    """Remove the engine's frames from the tracebacks of an error and its causes, except for an `InternalError`."""
    chain = list(_chain(error, []))
    if not any(isinstance(each, InternalError) for each in chain):
        for each in chain:
            each.__traceback__ = _without_engine(each.__traceback__)


def pack_error(error: BaseException | None) -> PackedError | None:
    """Serialise an exception with its traceback and its causes."""
    return _pack(error, [])


def unpack_error(packed: PackedError | None) -> BaseException | None:
    """Restore an exception with its traceback and its causes."""
    if packed is None:
        return None
    error = _unpacked(packed)
    error.__cause__ = unpack_error(packed.cause)
    error.__context__ = error.__cause__ or unpack_error(packed.context)
    error.__suppress_context__ = packed.suppress_context
    for place in reversed(packed.places):
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


def _pack(error: BaseException | None, seen: list[BaseException]) -> PackedError | None:
    if error is None or any(error is each for each in seen):
        return None
    seen.append(error)
    packed = None
    with contextlib.suppress(ConfigError):
        packed = pack("an exception", error)
    return PackedError(
        packed,
        type(error).__module__,
        type(error).__qualname__,
        str(error),
        tuple(
            _Place(frame.f_globals.get("__name__", ""), frame.f_code.co_filename, frame.f_code.co_name, line)
            for frame, line in traceback.walk_tb(error.__traceback__)
        ),
        _pack(error.__cause__, seen),
        _pack(error.__context__, seen),
        error.__suppress_context__,
    )


def _unpacked(packed: PackedError) -> BaseException:
    # An error while a user's exception class is unpickled must not hide the original error.
    with contextlib.suppress(Exception):
        if packed.packed is not None and isinstance(error := unpack(packed.packed), BaseException):
            return error
    stand_in: type[Exception] = type(packed.name, (Exception,), {"__module__": packed.module})
    return stand_in(packed.text)


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
