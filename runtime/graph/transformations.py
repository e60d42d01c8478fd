"""What the API builds: one transformation per step of the program, linked backwards to its inputs.

Nothing here is resolved: names may repeat, parallelism may be open. `stream_graph` settles that.
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
    "Partition",
    "Rebalance",
    "Rescale",
    "Shuffle",
    "Transformation",
]

NEVER_MS: Final = -1
"""The buffer timeout by which only full buffers are sent."""

_ANY: Final = (StepInput(takes="any"),)
SIDE_OUTPUT: Final = StepKind("side", role=Role.SIDE_OUTPUT, inputs=_ANY, nests=True, landmark=True)
UNION: Final = StepKind("union", role=Role.UNION, inputs=_ANY, gives="input")
ITERATION: Final = StepKind("iterate", role=Role.ITERATION, inputs=_ANY, gives="input")
FEEDBACK: Final = StepKind("feedback", role=Role.FEEDBACK, inputs=_ANY, gives="input")

Chaining = Literal["always", "head", "never"]
"""Whether a step shares a thread with what precedes and what follows, with what follows only, or with nothing."""


@dataclass(frozen=True, slots=True)
class Forward:
    """Records stay in their subtask; needs equal parallelism."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Records are dealt round-robin to all subtasks."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """Records are dealt round-robin to the subtasks next to the sender: each sender has its own, or shares one."""


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Records are dealt at random."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Every subtask gets every record."""


@dataclass(frozen=True, slots=True)
class Global:
    """The first subtask gets every record."""


@dataclass(frozen=True, slots=True)
class Custom:
    """A function of (key, number of subtasks) says which subtask gets a record."""

    partitioner: Callable[[Any, int], int]
    selector: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Hash:
    """Records go to the owner of their key's group."""

    selector: Callable[[Any], Any]
    key_type: TypeInformation | None = None


Partition = Forward | Rebalance | Rescale | Shuffle | Broadcast | Global | Custom | Hash


@dataclass(frozen=True, slots=True)
class Input:
    """Where records come from and how they are dealt; no partition leaves the choice to the parallelisms.

    `side` is 1 for the second of two connected streams.
    """

    transformation: Transformation
    partition: Partition | None = None
    side: int = 0


@dataclass(slots=True, eq=False)
class Transformation:
    """One step: what it is, what it runs, what feeds it.

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
    """What the environment said when the step was written, if it said anything; `parallelism` is stronger."""
    max_parallelism: int | None = None
    label: Label | None = None
    """What plans call it instead of its name."""
    chaining: Chaining | None = None
    slot_sharing_group: str | None = None
    """Steps of one group may share slots; without one it is that of all inputs, or `default`."""
    watermarks: Any = None
    """Of a source: the strategy by which its records get times."""
    co_location_group: str | None = None
    """The i-th subtasks of all steps of a group share a slot."""
    buffer_timeout_ms: int | None = None
    """How long what it emits may wait for more before it goes over an exchange; None leaves it to the job."""
