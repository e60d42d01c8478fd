"""Lifecycle of user functions in a subtask: state before `open`, a snapshot per checkpoint, checkpoint notifications."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from tidegate.backends.keyed.descriptors import ListStateDescriptor
from tidegate.ids import CheckpointId
from tidegate.runtime.operators.operator_list import OperatorList
from tidegate.runtime.operators.operator_state import OperatorListState, OperatorStates
from tidegate.runtime.operators.raw_state import RawState
from tidegate.runtime.stream.checkpointed import CheckpointedFunction, CheckpointListener, ListCheckpointed
from tidegate.runtime.stream.functions import Function, RuntimeContext, Wrapper
from tidegate.runtime.stream.raw_output import RawKeyedOutput, RawOutput
from tidegate.runtime.stream.state import bind_declared

if TYPE_CHECKING:
    from tidegate.runtime.operators.context import OperatorContext

__all__ = ["ManagedFunctions", "user_functions"]

_LIST: Final = ListStateDescriptor("list-checkpointed")
"""Holds the list of a `ListCheckpointed`."""


def user_functions(payload: object) -> list[object]:
    """The user's function, unwrapped."""
    if not isinstance(payload, Wrapper):
        return [payload]
    return [each for function in payload.functions for each in user_functions(function)]


class ManagedFunctions:
    """The user functions of one operator in one subtask, with their operator state."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._all: list[_Managed] = []
        self._opened: list[_Managed] = []
        self._saved: tuple[OperatorList, ...] | None = None

    def open(self, payload: object) -> None:
        """Initialize the state of a step's function and open it; `save` saves it."""
        for function in user_functions(payload):
            self.manage(function)
        self._opened = list(self._all)
        if isinstance(payload, Function):
            payload.open(self._context)

    def manage(
        self, function: object, lock: AbstractContextManager[object] | None = None
    ) -> Callable[[CheckpointId], None]:
        """Initialize the state of a function. The caller opens it, and saves its state through the returned object."""
        managed = _Managed(function, self._context, lock)
        self._all.append(managed)
        return managed.save if lock is None else partial(self._save_locked, managed)

    def save(self, checkpoint: CheckpointId) -> None:
        """Save the state of the functions that were opened here."""
        for managed in self._opened:
            managed.save(checkpoint)

    def snapshot(self) -> tuple[OperatorList, ...]:
        """The state, as its functions saved it."""
        saved, self._saved = self._saved, None
        return self._lists() if saved is None else saved

    @property
    def checkpointed(self) -> bool:
        """Whether there is operator state, or a function with checkpoint methods."""
        return bool(self._context.states.snapshot()) or any(each.checkpointed for each in self._all)

    def completed(self, checkpoint: CheckpointId) -> None:
        """Tell the functions that a checkpoint is settled."""
        for managed in self._all:
            managed.completed(checkpoint)

    def aborted(self, checkpoint: CheckpointId) -> None:
        """Tell the functions that a checkpoint was aborted."""
        for managed in self._all:
            managed.aborted(checkpoint)

    def _save_locked(self, managed: _Managed, checkpoint: CheckpointId) -> None:
        # Another thread changes it as soon as the lock is free, so it is encoded here.
        with managed.lock:
            managed.save(checkpoint)
            self._saved = self._lists()

    def _lists(self) -> tuple[OperatorList, ...]:
        return self._context.states.snapshot() + self._context.raw.snapshot()


class _Managed:
    """Calls the checkpoint methods of a user function, by the interfaces that it implements; initializes it first.

    `lock` is held meanwhile; needed if another thread runs the function.
    """

    def __init__(
        self, function: object, context: OperatorContext, lock: AbstractContextManager[object] | None = None
    ) -> None:
        self._function = function
        self._context = context
        self._list: OperatorListState[Any] | None = None
        self.lock = lock if lock is not None else nullcontext()
        with self.lock:
            self._initialize()

    @property
    def checkpointed(self) -> bool:
        """Whether the function has checkpoint methods."""
        return isinstance(self._function, CheckpointedFunction | ListCheckpointed | CheckpointListener)

    def save(self, checkpoint: CheckpointId) -> None:
        """Update the operator state from the function."""
        function, context = self._function, self._context
        with self.lock:
            if isinstance(function, CheckpointedFunction):
                context.raw.begin()
                function.snapshot_state(_Snapshot(checkpoint, context.raw))
            elif self._list is not None and isinstance(function, ListCheckpointed):
                self._list.update(function.snapshot_state(checkpoint, context.env.clock.now_ms()))

    def completed(self, checkpoint: CheckpointId) -> None:
        """Tell the function that a checkpoint is settled, if it is a CheckpointListener."""
        if isinstance(self._function, CheckpointListener):
            with self.lock:
                self._function.notify_checkpoint_complete(checkpoint)

    def aborted(self, checkpoint: CheckpointId) -> None:
        """Tell the function that a checkpoint was aborted, if it is a CheckpointListener."""
        if isinstance(self._function, CheckpointListener):
            with self.lock:
                self._function.notify_checkpoint_aborted(checkpoint)

    def _initialize(self) -> None:
        function, context = self._function, self._context
        bind_declared(function, context.state)
        if isinstance(function, CheckpointedFunction):
            function.initialize_state(_Initialization(context))
        elif isinstance(function, ListCheckpointed):
            self._list = context.states.get_list_state(_LIST)
            if items := self._list.get():
                function.restore_state(items)


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
