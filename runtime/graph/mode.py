"""Runtime mode: whether a program runs as a streaming job or as a batch job.

Example:
    >>> runs_as_batch("AUTOMATIC", [])
    True
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from tidegate.errors import ConfigError
from tidegate.runtime.operators.operator import Role

if TYPE_CHECKING:
    from tidegate.runtime.graph.stream_graph import StreamNode

__all__ = ["RuntimeMode", "runs_as_batch"]

RuntimeMode = Literal["STREAMING", "BATCH", "AUTOMATIC"]


def runs_as_batch(mode: RuntimeMode, steps: Iterable[StreamNode]) -> bool:
    """Whether a program with these steps runs as a batch job under `mode`.

    Raises:
        ConfigError: the mode is BATCH and a source is unbounded, or a batch job would have iterations.
    """
    known = list(steps)
    endless = [step for step in known if step.kind.role is Role.SOURCE and not step.payload.bounded]
    if mode == "BATCH" and endless:
        raise ConfigError(
            f"source {endless[0].name!r} (uid {endless[0].uid!r}) is unbounded and runtime mode is BATCH; expected "
            "bounded sources; use STREAMING, or AUTOMATIC to let the sources decide"
        )
    batch = mode == "BATCH" or (mode == "AUTOMATIC" and not endless)
    rounds = [step for step in known if step.kind.role is Role.ITERATION]
    if batch and rounds:
        raise ConfigError(
            f"iteration {rounds[0].uid!r} cannot be part of a batch job, whose stages follow each other; got runtime "
            f"mode {mode}; use STREAMING"
        )
    return batch
