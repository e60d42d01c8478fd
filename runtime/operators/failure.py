"""Error reports: which step failed on which record, found by the line of the generated loop that raised."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tidegate.elements import Batch
from tidegate.errors import RecordError, TidegateError, UserCodeError
from tidegate.failures import failure_of
from tidegate.ids import Subtask
from tidegate.runtime.operators.codegen import Compiled
from tidegate.runtime.operators.context import OperatorContext

if TYPE_CHECKING:
    from tidegate.runtime.graph.job_graph import JobVertex
    from tidegate.runtime.graph.stream_graph import StreamNode

__all__ = ["OverdueError", "blame", "explain", "of_request", "show"]


class OverdueError(BaseException):
    """The time limit is over. Not an `Exception`, so that user code with a retry loop does not catch it."""


def explain(
    error: BaseException, loop: Compiled, batch: Batch, vertex: JobVertex, subtask: Subtask
) -> TidegateError:
    """The error to raise for a failure inside `loop`; the user's own error becomes its cause."""
    where = f"subtask {subtask}"
    record = part = ""
    frame = _frame(error.__traceback__, loop.filename)
    if frame is not None:
        line = _line(frame, loop.filename)
        uid = loop.lines.get(line)
        if uid is not None:
            where = _where(vertex.nodes[uid], subtask)
        if line in loop.parts:
            part = f" in {loop.parts[line]}"
        known = frame.tb_frame.f_locals
        value = known["v"] if "v" in known else _taken_last(known.get("rest"), batch)
        record = f" on record {show(value)}{_origin(batch, value)}"
    failure = failure_of(f"{where} failed{part}{record}", error)
    if record and isinstance(failure, UserCodeError) and not _outside(error):
        failure.record = record
    return failure


@contextlib.contextmanager
def blame(node: StreamNode, subtask: Subtask, doing: str) -> Iterator[None]:
    """Report the operator whose function failed outside the loop, such as in `open`; errors of tidegate are not wrapped."""
    try:
        yield
    except TidegateError:
        raise
    except BaseException as error:
        raise failure_of(f"{_where(node, subtask)} failed in {doing}", error) from error


def of_request(context: OperatorContext, value: object, error: BaseException) -> TidegateError:
    """The error for a failure outside the loop, while a record was in progress."""
    where = f"operator {context.get_task_name()!r} (subtask {context.env.subtask})"
    return failure_of(f"{where} failed on record {show(value)}", error)


@contextlib.contextmanager
def refused(
    node: StreamNode, subtask: Subtask, batch: Batch, kind: type[TidegateError] = RecordError
) -> Iterator[None]:
    """Report the step that refused a record, and the source positions of the batch: the record itself is not known."""
    try:
        yield
    except kind as error:
        raise kind(f"{_where(node, subtask)} failed{_among(batch)}: {error}") from error


def show(value: object) -> str:
    """A record as text, shortened for a message."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"


def _where(node: StreamNode, subtask: Subtask) -> str:
    return f"operator {node.name!r} (uid {node.uid!r}, subtask {subtask})"


def _outside(error: BaseException | None) -> bool:
    """Whether a file or a connection failed, so that a retry may succeed."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error is not None


def _frame(trace: TracebackType | None, filename: str) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename != filename:
        trace = trace.tb_next
    return trace


def _line(trace: TracebackType, filename: str) -> int:
    """The line of the loop that raised; a comprehension in it may have a frame of its own."""
    while trace.tb_next is not None and trace.tb_next.tb_frame.f_code.co_filename == filename:
        trace = trace.tb_next
    return trace.tb_lineno


def _taken_last(rest: Any, batch: Batch) -> object:
    """The record of a batch that an iterator returned last."""
    return None if rest is None else batch.values[len(batch) - rest.__length_hint__() - 1]


def _among(batch: Batch) -> str:
    if batch.origin is None or not batch.values:
        return ""
    first, last, split = batch.origin.positions[0], batch.origin.positions[-1], batch.origin.split
    if first == last:
        return f" on results of position {first} of split {split!r}"
    return f" on results of positions {first} to {last} of split {split!r}"


def _origin(batch: Batch, value: object) -> str:
    if batch.origin is None:
        return ""
    index = next((i for i, candidate in enumerate(batch.values) if candidate is value), None)
    return (
        ""
        if index is None
        else f" at position {batch.origin.positions[index]} of split {batch.origin.split!r}"
    )
