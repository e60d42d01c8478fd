"""The life of a user function in a subtask: its state is there before it is opened, and is asked for at barriers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from tidegate.ids import CheckpointId
from tidegate.runtime.operators.context import OperatorContext
from tidegate.runtime.operators.operator_state import OperatorStates
from tidegate.runtime.operators.raw_state import RawState
from tidegate.runtime.stream.checkpointed import CheckpointedFunction
from tidegate.runtime.stream.functions import Function, RuntimeContext
from tidegate.runtime.stream.raw_output import RawKeyedOutput, RawOutput
from tidegate.runtime.stream.state import bind_declared

__all__ = ["open_function", "save_function"]


def open_function(function: Function, context: OperatorContext) -> None:
    """Give the function its state and open it."""
    inner = _innermost(function)
    bind_declared(inner, context.state)
    if isinstance(inner, CheckpointedFunction):
        inner.initialize_state(_Initialization(context))
    function.open(context)


def save_function(function: Function, checkpoint: CheckpointId, raw: RawState) -> None:
    """Let the function bring its operator state up to date."""
    inner = _innermost(function)
    if isinstance(inner, CheckpointedFunction):
        raw.begin()
        inner.snapshot_state(_Snapshot(checkpoint, raw))


def _innermost(function: Function) -> object:
    """What the user wrote, inside of what a step makes of it."""
    inner = getattr(function, "function", None)
    return _innermost(inner) if isinstance(inner, Function) else function


@dataclass(frozen=True, slots=True)
class _Initialization:
    context: OperatorContext

    def is_restored(self) -> bool:
        return self.context.env.checkpoint is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self.context.env.checkpoint

    def get_operator_state_store(self) -> OperatorStates:
        return self.context.states

    def get_keyed_state_store(self) -> RuntimeContext:
        return self.context

    def get_raw_operator_state_inputs(self) -> Iterator[BinaryIO]:
        return self.context.raw.get_raw_operator_state_inputs()

    def get_raw_keyed_state_inputs(self) -> Iterator[tuple[int, BinaryIO]]:
        return self.context.raw.get_raw_keyed_state_inputs()


@dataclass(frozen=True, slots=True)
class _Snapshot:
    checkpoint: CheckpointId
    raw: RawState

    def get_checkpoint_id(self) -> CheckpointId:
        return self.checkpoint

    def get_raw_operator_state_output(self) -> RawOutput:
        return self.raw.get_raw_operator_state_output()

    def get_raw_keyed_operator_state_output(self) -> RawKeyedOutput:
        return self.raw.get_raw_keyed_operator_state_output()
