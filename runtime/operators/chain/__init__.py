"""A chain of operators in one subtask: the steps between two exchanges."""

from tidegate.runtime.operators.chain.chain import OperatorChain as OperatorChain
from tidegate.runtime.operators.chain.loops import Outlet as Outlet
from tidegate.runtime.operators.chain.operators import ChainOperators as ChainOperators
from tidegate.runtime.operators.chain.snapshots import PendingReports as PendingReports

__all__ = ["ChainOperators", "OperatorChain", "Outlet", "PendingReports"]
