"""Interfaces of user functions for operator state and checkpoint notifications.

Every function that a step, a source or a sink calls may implement `CheckpointedFunction` or `ListCheckpointed`, and
`CheckpointListener`. What has no life of its own in a subtask (key selectors, partitioners, triggers and the like)
may not: such a program is refused when it is built.

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
from typing import Any, BinaryIO, Protocol, TypeVar, runtime_checkable

from tidegate.backends.keyed.descriptors import ListStateDescriptor, MapStateDescriptor
from tidegate.errors import ConfigError
from tidegate.ids import CheckpointId
from tidegate.runtime.stream.functions import RuntimeContext
from tidegate.runtime.stream.raw_output import RawKeyedOutput, RawOutput

__all__ = [
    "CheckpointListener",
    "CheckpointedFunction",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "ListCheckpointed",
    "OperatorStateStore",
    "one_stateful",
    "stateless",
]

G = TypeVar("G")


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
        """Whether the program resumes from a checkpoint."""
        ...

    def get_restored_checkpoint_id(self) -> int | None:
        """The checkpoint it resumes from, or None."""
        ...

    def get_operator_state_store(self) -> OperatorStateStore:
        """State that belongs to no key."""
        ...

    def get_keyed_state_store(self) -> RuntimeContext:
        """State of the current key."""
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


@runtime_checkable
class ListCheckpointed(Protocol):
    """A user function whose state is a list; at another parallelism each subtask gets an equal share of all items.

    A function that cannot part with its state returns a list of one item. Any class with both methods counts.
    """

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        """What the function needs to continue from here; called at every barrier."""
        ...

    def restore_state(self, state: list[Any]) -> None:
        """Restore from these items; called before `open`, but not at a start without state or items."""
        ...


class CheckpointListener(ABC):
    """An additional base class of functions: notified of checkpoints by the thread that calls the function.

    A call may be missed when the function fails or is restarted; a later checkpoint stands for all before it.
    """

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is settled: all output up to it is visible, and no restart goes back before it.

        On Spark a function lives for one epoch: this is called after `open`, with the checkpoint it starts from.
        """

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027
        """The checkpoint was given up; a later one will hold its records. Not called on Spark, which repeats the epoch."""


def stateless(step: str, given: G) -> G:
    """`given` itself, if it needs nothing that only functions get.

    Raises:
        ConfigError: it implements an interface for state or checkpoints.
    """
    interface = _interface(given)
    if interface is not None:
        raise ConfigError(
            f"{step}: {type(given).__name__} implements {interface}; expected an object without state, because it is not "
            "opened in a subtask; keep the state in a function, such as a ProcessFunction before this step"
        )
    return given


def one_stateful(step: str, *functions: object) -> None:
    """Refuse a step with two functions that both keep operator state.

    Raises:
        ConfigError: there are two; their states would have the same names.
    """
    stateful = [each for each in functions if isinstance(each, CheckpointedFunction | ListCheckpointed)]
    if len(stateful) > 1:
        names = " and ".join(type(each).__name__ for each in stateful)
        raise ConfigError(
            f"{step}: {names} both keep operator state; expected one such function in a step; "
            "move one of them to a separate step"
        )


def _interface(given: object) -> str | None:
    for cls in (CheckpointedFunction, ListCheckpointed, CheckpointListener):
        if isinstance(given, cls):
            return cls.__name__
    return None
