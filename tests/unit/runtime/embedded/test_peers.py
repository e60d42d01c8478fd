"""The other workers, as seen by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import UnavailableError
from tidegate.ids import OperatorUid
from tidegate.runtime.embedded.messages import Inbox
from tidegate.runtime.embedded.peers import Peers
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.graph.transformations import Rebalance
from tidegate.runtime.task.exchange import ChannelId


def test_a_worker_that_is_gone_before_it_is_called_is_named(tmp_path: Path) -> None:
    edge = JobEdge("a", OperatorUid("a"), "b", Rebalance(), None, 1, 2, 128)
    peers = Peers(0, [str(tmp_path / "here"), str(tmp_path / "gone")], b"secret", Inbox())

    with pytest.raises(UnavailableError, match="task manager 2 cannot be reached: "):
        peers.sender(ChannelId(edge.name, 0, 1), edge, 1)
