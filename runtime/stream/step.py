"""Base class of all streams: a step of the program with name, uid and parallelism.

Example:
    >>> from tidegate.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> env.from_collection([1]).map(str).name("texts").set_parallelism(2).get_name()
    'texts'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from tidegate.errors import ConfigError
from tidegate.runtime.graph.transformations import NEVER_MS, Transformation
from tidegate.runtime.operators.operator import Role
from tidegate.runtime.stream.slot_sharing import SlotSharingGroup
from tidegate.runtime.unsupported_api import UnsupportedApi

if TYPE_CHECKING:
    from tidegate.runtime.stream.environment import StreamExecutionEnvironment

__all__ = ["Step", "buffer_timeout", "positive"]

_VIEWS: Final = (Role.UNION, Role.SIDE_OUTPUT)
"""Not steps that run: they are part of the steps in front of them."""


class Step(UnsupportedApi):
    """What all results of a method have in common: a transformation that can be named and sized."""

    def __init__(
        self, env: StreamExecutionEnvironment, transformation: Transformation, *, new: bool = True
    ) -> None:
        self._env = env
        self._transformation = transformation
        self._is_view = not new
        # Later settings are for later steps; a view of an earlier step, such as a key, leaves it as it is.
        if new and transformation.kind.role not in _VIEWS and (usual := env.get_parallelism()) > 0:
            transformation.usual_parallelism = usual
        if new:
            env.add_step(transformation)

    def __repr__(self) -> str:
        step = self._transformation
        uid = f", uid {step.uid!r}" if step.uid is not None else ""
        return f"<{type(self).__name__} of {step.name!r}{uid}>"

    def uid(self, uid: str) -> Self:
        """Name the step over program versions: its state is found by this name."""
        if not uid:
            raise ConfigError("uid is empty; give a name that stays the same over program versions")
        self._own("uid").uid = uid
        return self

    def name(self, name: str) -> Self:
        """Name the step for people."""
        step = self._own("name")
        step.name, step.label = name, None
        return self

    def set_description(self, description: str) -> Self:
        """Say in plans what the step does, at greater length than its name."""
        self._own("set_description").label = description
        return self

    def get_name(self) -> str:
        """What the step is called."""
        return self._transformation.name

    def force_non_parallel(self) -> Self:
        """Run the step in one subtask."""
        return self.set_parallelism(1)

    def set_parallelism(self, parallelism: int) -> Self:
        """Run the step in this many subtasks; stronger than every other setting."""
        self._operator("set_parallelism").parallelism = positive("parallelism", parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """How many key groups the step's state has, and so how far it can be scaled."""
        self._operator("set_max_parallelism").max_parallelism = positive("max parallelism", max_parallelism)
        return self

    def disable_chaining(self) -> Self:
        """Let the step share its thread with no other."""
        self._operator("disable_chaining").chaining = "never"
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Let the step share slots only with steps of the same group; what follows inherits it."""
        name = self._env.slot_sharing_groups.named(slot_sharing_group)
        self._operator("slot_sharing_group").slot_sharing_group = name
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Let what the step emits wait this long for more before an exchange; 0 sends at once, -1 only full buffers."""
        self._operator("set_buffer_timeout").buffer_timeout_ms = buffer_timeout(timeout_millis)
        return self

    def _operator(self, what: str) -> Transformation:
        """The step, if it is one that runs."""
        step = self._own(what)
        if step.kind.role in _VIEWS:
            raise ConfigError(
                f"{what} is for an operator; {step.name!r} is only a view of other steps; "
                "call it on the step before or after it"
            )
        return step

    def _own(self, what: str) -> Transformation:
        """The step, if this is not a way to deal its records, such as a key: settings would go to the step before."""
        if self._is_view:
            raise ConfigError(
                f"{what} cannot be set on a {type(self).__name__} that only partitions the records of "
                f"{self._transformation.name!r} for the next step; call it on that step or on the next one"
            )
        return self._transformation


def positive(what: str, number: int) -> int:
    """`number` itself if it can be one.

    Raises:
        ConfigError: it is not an integer above 0.
    """
    if type(number) is not int or number < 1:
        raise ConfigError(f"{what} is {number!r}; expected an integer of at least 1")
    return number


def buffer_timeout(milliseconds: int) -> int:
    """`milliseconds` itself if records can wait so long.

    Raises:
        ConfigError: it is not an integer of at least -1.
    """
    if type(milliseconds) is not int or milliseconds < NEVER_MS:
        raise ConfigError(
            f"buffer timeout is {milliseconds!r}; expected milliseconds, 0 to send at once, or -1 for full buffers"
        )
    return milliseconds
