"""What somebody whose function failed needs to see of a traceback: their own frames, and nothing of the engine.

Example:
    >>> import json
    >>> try:
    ...     json.loads("no")
    ... except ValueError as caught:
    ...     error = caught
    >>> hide_engine(error)
    >>> error.__traceback__.tb_frame.f_code.co_name
    'loads'
"""

from __future__ import annotations

from types import TracebackType

from tidegate.errors import InternalError

__all__ = ["hide_engine"]


def hide_engine(error: BaseException | None) -> None:
    """Take the engine's frames out of the tracebacks of an error and its causes; a defect of the engine keeps them."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__
    if not any(isinstance(each, InternalError) for each in chain):
        for each in chain:
            each.__traceback__ = _without_engine(each.__traceback__)


def _without_engine(trace: TracebackType | None) -> TracebackType | None:
    if trace is None:
        return None
    rest = _without_engine(trace.tb_next)
    module: str = trace.tb_frame.f_globals.get("__name__", "")
    if module.startswith("tidegate.") or trace.tb_frame.f_code.co_filename.startswith("<tidegate "):
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
