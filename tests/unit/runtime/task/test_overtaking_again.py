"""The first checkpoint after a restore waits no more than others do: it overtakes what the one before had found."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from tests.unit.runtime.task.test_in_flight import (
    BEHIND,
    FILES,
    SEVEN,
    UID,
    backlog,
    edge,
    recorded,
    rest,
    steps,
)
from tidegate.backends.heap import HeapBackend
from tidegate.backends.spi import BackendContext, Chunk
from tidegate.clock import ManualClock
from tidegate.elements import Barrier, Batch, Watermark
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.keys import ranges
from tidegate.runtime.checkpoint.protocol import Ack, Announce
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.graph.transformations import Broadcast, Forward
from tidegate.runtime.operators.environment import ChainEnvironment, RestoredOperator
from tidegate.runtime.operators.functions import MAP
from tidegate.runtime.task.downstream import DownstreamTask
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.messages import FromSubtask

EIGHT = CheckpointId(8)


class AtOnce(Executor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class Stepped:
    """A subtask behind some exchanges, called step by step."""

    def __init__(self, found: Chunk, *edges: JobEdge) -> None:
        self.seen: list[Any] = []
        self.said: list[FromSubtask] = []
        self.channels = [ChannelId(each.name, 0, 0) for each in edges]
        step = StreamNode(UID, "to", MAP, self._note, 1, 128, None)
        env = ChainEnvironment(
            subtask=Subtask(UID, 0),
            parallelism=1,
            max_parallelism=128,
            key_groups=ranges(1, 128)[0],
            pipeline=PipelineId("p"),
            lineage=LineageId("l"),
            branch=Branch(0),
            attempt="a",
            clock=ManualClock(),
            backend=HeapBackend(),
            state=BackendContext(Path("/nowhere"), FILES, {}),
            cache_entries=10,
            restored={UID: RestoredOperator(in_flight=(found,))},
        )
        self.runner = DownstreamTask(
            JobVertex(UID, "to", {UID: step}, {UID: ()}, 1, 128, edges, ()),
            env,
            {},
            self.said.append,
            AtOnce(),
            channels=self.channels,
            grant=lambda channel, records, limit: None,
        )
        self.runner.open()

    def acked(self) -> tuple[Chunk, ...]:
        """What the only acknowledgement says is on its way."""
        (acked,) = [message for message in self.said if isinstance(message, Ack)]
        return tuple(report.in_flight for report in acked.reports if report.in_flight is not None)

    def _note(self, value: Any) -> Any:
        self.seen.append(value)
        return value


def test_what_is_not_worked_off_yet_is_kept_again_in_front_of_what_came_since() -> None:
    inbound = edge(BEHIND, 1)
    found = recorded(inbound, 0, {0: [Watermark(5), *([Batch([n]) for n in range(6)])]})
    stepped = Stepped(found, inbound)
    for _ in range(4):
        stepped.runner.step()
    assert stepped.seen == [0, 1], "event time twice, and two batches"
    stepped.runner.deliver(stepped.channels[0], Batch([10, 11]))

    stepped.runner.post(Announce(EIGHT, SEVEN))
    stepped.runner.step()
    stepped.runner.deliver(stepped.channels[0], Barrier(EIGHT, SEVEN))

    again = steps(rest(backlog(inbound, 0, 1, stepped.acked())))
    assert [each for each in again if isinstance(each, list)] == [[2], [3], [4], [5], [10, 11]]
    assert not all(stepped.runner.step() for _ in range(100))
    assert stepped.seen == [0, 1, 2, 3, 4, 5, 10, 11]


def test_an_input_that_cannot_be_overtaken_does_not_wait_for_what_was_found() -> None:
    inbound, copied = edge(BEHIND, 1), JobEdge("all", OperatorUid("all"), UID, Broadcast(), None, 1, 1, 128)
    found = recorded(inbound, 0, {0: [Batch([n]) for n in range(100)]})
    stepped = Stepped(found, inbound, copied)
    stepped.runner.post(Announce(EIGHT, SEVEN))
    stepped.runner.deliver(stepped.channels[1], Batch(["rule"]))
    stepped.runner.deliver(stepped.channels[1], Barrier(EIGHT, SEVEN))
    stepped.runner.deliver(stepped.channels[0], Barrier(EIGHT, SEVEN))

    for _ in range(4):
        stepped.runner.step()

    assert stepped.seen[0] == "rule"
    again = steps(rest(backlog(inbound, 0, 1, stepped.acked())))
    kept = [value for each in again if isinstance(each, list) for value in each]
    assert kept == list(range(100))


def test_where_nothing_can_be_overtaken_any_more_barriers_wait_for_what_was_found() -> None:
    inbound, forward = edge(BEHIND, 1), JobEdge("one", OperatorUid("one"), UID, Forward(), None, 1, 1, 128)
    found = recorded(inbound, 0, {0: [Batch([n]) for n in range(10)]})
    stepped = Stepped(found, forward)
    stepped.runner.deliver(stepped.channels[0], Batch([10]))
    stepped.runner.deliver(stepped.channels[0], Barrier(EIGHT, SEVEN))

    assert not all(stepped.runner.step() for _ in range(100))

    assert stepped.seen == list(range(11)), "the snapshot would hold none of these"
    assert stepped.acked() == ()
