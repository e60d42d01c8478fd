"""Transformations: the steps of a program as the API builds them, each linked to its inputs.

Nothing is resolved here: names may repeat, parallelism may be unset. `stream_graph` resolves them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from tidegate.connectors.spi import Sink, Source
from tidegate.runtime.graph.names import Label
from tidegate.runtime.operators.operator import Role, StepInput, StepKind
from tidegate.types import TypeInformation

__all__ = [
    "FEEDBACK",
    "ITERATION",
    "NEVER_MS",
    "SIDE_OUTPUT",
    "UNION",
    "Broadcast",
    "Chaining",
    "Custom",
    "Forward",
    "Global",
    "Hash",
    "Input",
    "KeyedForward",
    "Partition",
    "Rebalance",
    "Rescale",
    "Shuffle",
    "Transformation",
]

NEVER_MS: Final = -1
"""The buffer timeout that sends only full buffers."""

_ANY: Final = (StepInput(takes="any"),)
SIDE_OUTPUT: Final = StepKind("side", role=Role.SIDE_OUTPUT, inputs=_ANY, nests=True, landmark=True)
UNION: Final = StepKind("union", role=Role.UNION, inputs=_ANY, gives="input")
ITERATION: Final = StepKind("iterate", role=Role.ITERATION, inputs=_ANY, gives="input")
FEEDBACK: Final = StepKind("feedback", role=Role.FEEDBACK, inputs=_ANY, gives="input")

Chaining = Literal["always", "head", "never"]
"""Whether a step may be chained to its input and its outputs, to its outputs only, or to nothing."""


@dataclass(frozen=True, slots=True)
class Forward:
    """Records stay in their subtask; needs equal parallelism."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Records are distributed round-robin to all subtasks."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """Records are distributed round-robin to a fixed subset of subtasks: each sender has its own, or several share one."""


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Records are distributed at random."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Every subtask gets every record."""


@dataclass(frozen=True, slots=True)
class Global:
    """The first subtask gets every record."""


@dataclass(frozen=True, slots=True)
class Custom:
    """A function of (key, number of subtasks) selects the subtask of a record."""

    partitioner: Callable[[Any, int], int]
    selector: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Hash:
    """Records go to the subtask that owns the key group of their key."""

    selector: Callable[[Any], Any]
    key_type: TypeInformation | None = None


@dataclass(frozen=True, slots=True)
class KeyedForward(Hash, Forward):
    """Records stay in their subtask, which owns the group of their key already."""


Partition = Forward | Rebalance | Rescale | Shuffle | Broadcast | Global | Custom | Hash


@dataclass(frozen=True, slots=True)
class Input:
    """An input step and its partitioning; without one, the parallelism of both steps decides.

    `side` is 1 for the second of two connected streams.
    """

    transformation: Transformation
    partition: Partition | None = None
    side: int = 0


@dataclass(slots=True, eq=False)
class Transformation:
    """One step: its kind, its payload, its inputs.

    `payload` is the user's function, or the description of a source or sink.
    """

    kind: StepKind
    name: str
    payload: Callable[..., Any] | Source[Any] | Sink | Any
    inputs: tuple[Input, ...] = ()
    output_type: TypeInformation | None = None
    uid: str | None = None
    parallelism: int | None = None
    usual_parallelism: int | None = None
    """The parallelism of the environment when the step was created, if set; `parallelism` overrides it."""
    max_parallelism: int | None = None
    label: Label | None = None
    """Its display name in plans instead of `name`."""
    chaining: Chaining | None = None
    slot_sharing_group: str | None = None
    """Slot sharing group; None: that of all inputs, or `default`."""
    watermarks: Any = None
    """Sources only: the watermark strategy."""
    co_location_group: str | None = None
    """The i-th subtasks of all steps of a group share a slot."""
    buffer_timeout_ms: int | None = None
    """How long its output may wait for more records before an exchange sends it; None: the setting of the job."""
