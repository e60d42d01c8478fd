"""What the API builds: one transformation per step of the program, linked backwards to its inputs.

Nothing here is resolved: names may repeat, parallelism may be open. `stream_graph` settles that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tidegate.connectors.spi import Sink, Source
from tidegate.types import TypeInformation

__all__ = ["Forward", "Hash", "Input", "Kind", "Partition", "Rebalance", "Transformation"]

Kind = Literal["source", "map", "filter", "flat_map", "process", "sink"]


@dataclass(frozen=True, slots=True)
class Forward:
    """Records stay in their subtask; needs equal parallelism."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Records are dealt round-robin."""


@dataclass(frozen=True, slots=True)
class Hash:
    """Records go to the owner of their key's group."""

    selector: Callable[[Any], Any]
    key_type: TypeInformation | None = None


Partition = Forward | Rebalance | Hash


@dataclass(frozen=True, slots=True)
class Input:
    """Where records come from and how they are dealt; None leaves the choice to the parallelisms."""

    transformation: Transformation
    partition: Partition | None = None


@dataclass(slots=True, eq=False)
class Transformation:
    """One step: what it is, what it runs, what feeds it.

    `payload` is the user's function, or the description of a source or sink.
    """

    kind: Kind
    name: str
    payload: Callable[..., Any] | Source[Any] | Sink | Any
    inputs: tuple[Input, ...] = ()
    output_type: TypeInformation | None = None
    uid: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
