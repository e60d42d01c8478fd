"""Snapshots by markers as Chandy and Lamport describe them, taken by the alignment of a subtask.

The alignment is the one of jobs: it says when a process takes its state, which channels are recorded from then on, and when
the snapshot is complete. The test plays the processes and their channels and keeps what it is told to record.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest

from tidegate.ids import CheckpointId
from tidegate.runtime.task.alignment import (
    Action,
    Alignment,
    Announced,
    BarrierArrived,
    BarrierSeen,
    Overtake,
    Recorded,
)

ONE = CheckpointId(1)
MARKER = "marker"


@dataclass
class Process:
    """Has a channel from each process, itself included; what comes in waits until it is worked off."""

    number: int
    sources: tuple[int, ...]
    state: list[str] = field(default_factory=list)
    queues: dict[int, deque[str]] = field(default_factory=dict)
    recorded_state: list[str] | None = None
    recording: dict[int, list[str]] = field(default_factory=dict)
    closed: dict[int, list[str]] = field(default_factory=dict)
    complete: bool = False

    def __post_init__(self) -> None:
        self.queues = {source: deque() for source in self.sources}
        self.alignment = Alignment(self.sources, overtakable=self.sources)

    def begin(self) -> None:
        """TakeSnapshot at once, on nobody's word but its own."""
        self.act(self.alignment.on(Announced(ONE)))

    def receive(self, source: int, message: str) -> None:
        """Something comes in; the first marker begins the snapshot and closes its channel."""
        if message != MARKER:
            self.queues[source].append(message)
            if source in self.recording:
                self.recording[source].append(message)
        elif self.recorded_state is None:
            self.closed[source] = []
            self.act(self.alignment.on(BarrierArrived(source, ONE)))
            self.begin()
        else:
            self.closed[source] = self.recording.pop(source)
            self.act(self.alignment.on(BarrierSeen(source, ONE)))

    def work_off(self, source: int) -> None:
        self.state.append(self.queues[source].popleft())

    def act(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Overtake():
                    self.recorded_state = list(self.state)
                    self.recording = {s: list(self.queues[s]) for s in self.sources if s in action.channels}
                case Recorded():
                    self.complete = True


@pytest.mark.spec("003/EX-07")
@pytest.mark.parametrize(
    ("moment", "state", "in_channel"),
    [
        ("initial", ["X2 = 4"], []),
        ("in C12", ["X2 = 4"], ["set X2 from 4 to 7"]),
        ("received", ["X2 = 4"], ["set X2 from 4 to 7"]),
        ("worked off", ["X2 = 4", "set X2 from 4 to 7"], []),
    ],
    ids=["initial", "in the channel", "received", "worked off"],
)
def test_a_message_is_in_its_channel_until_it_is_worked_off(
    moment: str, state: list[str], in_channel: list[str]
) -> None:
    second, message = Process(2, (1,), ["X2 = 4"]), "set X2 from 4 to 7"
    if moment in ("received", "worked off"):
        second.receive(1, message)
    if moment == "worked off":
        second.work_off(1)

    second.begin()
    if moment == "in C12":
        second.receive(1, message)
    second.receive(1, MARKER)
    if moment == "initial":
        second.receive(1, message)

    assert second.complete
    assert (second.recorded_state, second.closed) == (state, {1: in_channel})


@pytest.mark.spec("003/EX-08")
def test_markers_among_three_processes_record_every_state_once_and_what_is_in_the_channels() -> None:
    first, second, third = (Process(number, (1, 2, 3)) for number in (1, 2, 3))

    first.begin()
    first.receive(1, "A to A")
    third.receive(1, MARKER)
    assert third.recorded_state == []
    assert third.closed == {1: []}
    first.receive(3, MARKER)
    second.receive(3, MARKER)
    assert second.recorded_state == []
    assert second.closed == {3: []}
    first.receive(2, "H to D")
    second.receive(1, MARKER)
    second.receive(2, MARKER)
    assert second.complete
    first.receive(1, MARKER)
    first.receive(2, MARKER)
    assert first.complete
    assert first.closed == {1: ["A to A"], 2: ["H to D"], 3: []}
    third.receive(3, "J")
    third.receive(2, MARKER)
    third.receive(3, MARKER)

    assert third.closed == {1: [], 2: [], 3: ["J"]}
    assert [process.complete for process in (first, second, third)] == [True] * 3
    assert all(not process.recording for process in (first, second, third)), "all inputs are closed"
