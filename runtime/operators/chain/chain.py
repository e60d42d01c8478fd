"""Operator chain: the operators of one vertex in one subtask, with their data, time and snapshots.

The chain knows nothing of threads, channels or executors. It gets batches, watermarks and processing time,
passes output for exchanges to its outlet, and reports its part of a checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.runtime.operators.chain.loops import ChainLoops, Outlet
from tidegate.runtime.operators.chain.operators import ChainOperators
from tidegate.runtime.operators.chain.snapshots import ChainSnapshots
from tidegate.runtime.operators.chain.time import ChainTime
from tidegate.runtime.operators.environment import ChainEnvironment

if TYPE_CHECKING:
    from tidegate.runtime.graph.job_graph import JobVertex

__all__ = ["OperatorChain"]


class OperatorChain:
    """Opens and closes the operators of one vertex in one subtask, and passes them data, time and checkpoints."""

    def __init__(self, vertex: JobVertex, env: ChainEnvironment, outlet: Outlet) -> None:
        self.operators = ChainOperators(vertex, env)
        """The operators, their contexts and their state."""
        self.data = ChainLoops(vertex, env, self.operators, outlet)
        """Passes batches through the generated loops."""
        self.time = ChainTime(vertex, env, self.operators, self.data, outlet)
        """Passes watermarks and idleness, and fires timers."""
        self.snapshots = ChainSnapshots(vertex, env, self.operators, self.time)
        """Its part of checkpoints."""
        self._vertex = vertex

    def open(self) -> None:
        """Open state, functions and writers, with the restored state of the environment."""
        for node in self._vertex.nodes.values():
            self.operators.open(node)
        self.time.open()
        for _, operator in self.operators.all():
            operator.open()

    def close(self) -> None:
        """Close functions, writers and state; all of them, even if one fails."""
        self.operators.close()
