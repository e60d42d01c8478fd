"""Functions that say themselves what of them a checkpoint holds.

Example:
    >>> from tidegate.datastream import CheckpointedFunction, FlatMapFunction, ListStateDescriptor
    >>> class Buffer(FlatMapFunction, CheckpointedFunction):
    ...     def initialize_state(self, context):
    ...         store = context.get_operator_state_store()
    ...         self.stored = store.get_list_state(ListStateDescriptor("buffered"))
    ...         self.buffered = self.stored.get()
    ...
    ...     def flat_map(self, value):
    ...         self.buffered.append(value)
    ...
    ...     def snapshot_state(self, context):
    ...         self.stored.update(self.buffered)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, BinaryIO, Protocol

from tidegate.backends.keyed.descriptors import ListStateDescriptor, MapStateDescriptor
from tidegate.ids import CheckpointId
from tidegate.runtime.stream.functions import RuntimeContext
from tidegate.runtime.stream.raw_output import RawKeyedOutput, RawOutput

__all__ = [
    "CheckpointedFunction",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "OperatorStateStore",
]


class OperatorStateStore(Protocol):
    """State of a subtask that belongs to no key."""

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> Any:
        """A list of which each subtask gets an equal share when the parallelism changes."""
        ...

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> Any:
        """A list of which each subtask gets the items of all subtasks after a restore."""
        ...

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> Any:
        """A map that is the same in each subtask."""
        ...


class FunctionInitializationContext(Protocol):
    """What a function starts from."""

    def is_restored(self) -> bool:
        """Whether the program goes on from a checkpoint."""
        ...

    def get_restored_checkpoint_id(self) -> int | None:
        """The checkpoint it goes on from, if it does."""
        ...

    def get_operator_state_store(self) -> OperatorStateStore:
        """State that belongs to no key."""
        ...

    def get_keyed_state_store(self) -> RuntimeContext:
        """State of the key at hand."""
        ...

    def get_raw_operator_state_inputs(self) -> Iterator[BinaryIO]:
        """The partitions of raw state that are dealt to this subtask: its own, or an equal share."""
        ...

    def get_raw_keyed_state_inputs(self) -> Iterator[tuple[int, BinaryIO]]:
        """The key groups of this subtask for which raw state was written, and what was written."""
        ...


class FunctionSnapshotContext(Protocol):
    """Which checkpoint is taken."""

    def get_checkpoint_id(self) -> CheckpointId:
        """Its number."""
        ...

    def get_raw_operator_state_output(self) -> RawOutput:
        """Where to write bytes of the subtask, in partitions: an equal share of them when the parallelism changes."""
        ...

    def get_raw_keyed_operator_state_output(self) -> RawKeyedOutput:
        """Where to write bytes of key groups, which go where their keys go; only behind `key_by`."""
        ...


class CheckpointedFunction(ABC):
    """Beside any other function class: keeps state that belongs to no key."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Called once per subtask before `open`, with what the checkpoint holds if there is one."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Called at every barrier: fill the states with what the function holds now."""
