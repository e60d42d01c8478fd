from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given, strategies as st

from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK
from tidegate.errors import InternalError
from tidegate.ids import CheckpointId
from tidegate.runtime.task.alignment import (
    Action,
    Alignment,
    Announced,
    BarrierArrived,
    BarrierSeen,
    Block,
    Inputs,
    Overtake,
    Recorded,
    TakeSnapshot,
    Unblock,
)

ONE, TWO, THREE = CheckpointId(1), CheckpointId(2), CheckpointId(3)


def test_a_single_channel_snapshots_at_once_and_never_blocks() -> None:
    alignment = Alignment(["a"])

    assert alignment.on(BarrierArrived("a", ONE)) == [TakeSnapshot(ONE)]
    assert alignment.on(BarrierArrived("a", TWO)) == [TakeSnapshot(TWO)]


def test_the_last_barrier_snapshots_and_unblocks() -> None:
    alignment = Alignment(["a", "b", "c"])

    assert alignment.on(BarrierArrived("b", ONE)) == [Block("b")]
    assert alignment.on(BarrierArrived("a", ONE)) == [Block("a")]
    assert alignment.on(BarrierArrived("c", ONE)) == [TakeSnapshot(ONE), Unblock()]


def test_a_newer_barrier_gives_the_older_checkpoint_up() -> None:
    alignment = Alignment(["a", "b"])
    alignment.on(BarrierArrived("a", ONE))

    assert alignment.on(BarrierArrived("b", TWO)) == [Unblock(), Block("b")]
    assert alignment.on(BarrierArrived("a", TWO)) == [TakeSnapshot(TWO), Unblock()]


def test_a_late_barrier_of_a_given_up_checkpoint_is_ignored() -> None:
    alignment = Alignment(["a", "b"])
    alignment.on(BarrierArrived("a", TWO))

    assert alignment.on(BarrierArrived("b", ONE)) == []
    assert alignment.on(BarrierArrived("b", TWO)) == [TakeSnapshot(TWO), Unblock()]


def test_a_repeated_barrier_of_a_finished_checkpoint_holds_nothing() -> None:
    alignment = Alignment(["a", "b"])
    alignment.on(BarrierArrived("a", ONE))
    alignment.on(BarrierArrived("b", ONE))

    assert alignment.on(BarrierArrived("a", ONE)) == []


def test_a_barrier_on_an_unknown_channel_is_an_error_of_ours() -> None:
    with pytest.raises(InternalError, match="barrier 1 arrived on unknown channel 'z'"):
        Alignment(["a"]).on(BarrierArrived("z", ONE))


# A channel is given by the numbers of records before its first, second, ... barrier.
CHANNELS = st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1, max_size=4)


def barriers_in(gaps: list[int]) -> list[int]:
    """Records (0) with the barriers 1, 2, 3, ... between them."""
    row: list[int] = []
    for number, records in enumerate(gaps, start=1):
        row += [0] * records + [number]
    return row


@given(rows=CHANNELS, chance=st.randoms(use_true_random=False))
@pytest.mark.spec("004/BAR-002", "003/FT-10")
def test_a_snapshot_holds_what_came_before_its_barrier_on_every_channel_and_nothing_else(
    rows: list[list[int]], chance: random.Random
) -> None:
    queues = {number: deque(barriers_in(row)) for number, row in enumerate(rows)}
    alignment, blocked = Alignment(queues), set[object]()
    taken = dict.fromkeys(queues, 0)
    expected = {number: {n: sum(row[:n]) for n in range(1, len(row) + 1)} for number, row in enumerate(rows)}
    complete = min(len(row) for row in rows)
    snapshots = []

    while ready := [number for number, queue in queues.items() if queue and number not in blocked]:
        channel = chance.choice(ready)
        element = queues[channel].popleft()
        if element == 0:
            taken[channel] += 1
            continue
        for action in alignment.on(BarrierArrived(channel, CheckpointId(element))):
            match action:
                case Block():
                    blocked.add(action.channel)
                case Unblock():
                    blocked.clear()
                case TakeSnapshot():
                    snapshots.append(action.checkpoint)
                    assert taken == {c: expected[c][action.checkpoint] for c in queues}

    assert snapshots == list(range(1, complete + 1))


def test_without_blocking_no_channel_is_held_and_the_last_barrier_snapshots() -> None:
    alignment = Alignment(["a", "b"], blocking=False)

    assert alignment.on(BarrierArrived("a", ONE)) == []
    assert alignment.on(BarrierArrived("b", ONE)) == [TakeSnapshot(ONE)]
    assert alignment.on(BarrierArrived("b", TWO)) == []
    assert alignment.on(BarrierArrived("a", THREE)) == []
    assert alignment.on(BarrierArrived("b", THREE)) == [TakeSnapshot(THREE)]


def test_an_announcement_overtakes_what_has_not_arrived_and_frees_what_was_held() -> None:
    alignment = Alignment(["a", "b", "c"], overtakable=["a", "b", "c"])
    alignment.on(BarrierArrived("a", ONE))

    assert alignment.on(Announced(ONE)) == [Overtake(ONE, frozenset(["b", "c"])), Unblock()]
    assert alignment.on(BarrierSeen("b", ONE)) == []
    assert alignment.on(BarrierSeen("c", ONE)) == [Recorded(ONE)]
    assert alignment.on(BarrierArrived("b", ONE)) == alignment.on(BarrierArrived("c", ONE)) == []


def test_an_announcement_waits_for_the_channels_that_nothing_overtakes() -> None:
    alignment = Alignment(["a", "rules"], overtakable=["a"])

    assert alignment.on(Announced(ONE)) == []
    assert alignment.on(BarrierArrived("rules", ONE)) == [Overtake(ONE, frozenset(["a"])), Unblock()]


def test_an_announcement_that_comes_late_changes_nothing() -> None:
    alignment = Alignment(["a", "b"], overtakable=["a", "b"])
    alignment.on(BarrierArrived("a", ONE))
    alignment.on(BarrierArrived("b", ONE))

    assert alignment.on(Announced(ONE)) == []
    assert alignment.on(BarrierArrived("a", TWO)) == [Block("a")]


def test_a_newer_announcement_gives_up_what_is_recorded() -> None:
    alignment = Alignment(["a", "b"], overtakable=["a", "b"])
    alignment.on(Announced(ONE))
    alignment.on(BarrierSeen("a", ONE))

    assert alignment.on(Announced(TWO)) == [Recorded(ONE), Overtake(TWO, frozenset(["a", "b"]))]
    assert alignment.on(BarrierSeen("b", ONE)) == []
    assert [alignment.on(BarrierSeen(channel, TWO)) for channel in "ab"] == [[], [Recorded(TWO)]]


Row = list[int | str]
"""Barriers as numbers, records as text."""


class Receiver:
    """Takes from its channels and keeps what an alignment tells it to; a model of what a subtask does."""

    def __init__(self, rows: dict[int, Row], overtakable: set[int], *, blocking: bool = True) -> None:
        self.alignment = Alignment(rows, blocking=blocking, overtakable=overtakable)
        self.coming = {channel: deque(row) for channel, row in rows.items()}
        self.queues: dict[int, deque[int | str]] = {channel: deque() for channel in rows}
        self.blocked: set[object] = set()
        self.taken: list[str] = []
        self.cuts: dict[int, tuple[list[str], list[str]]] = {}
        """What a checkpoint has seen and what it has overtaken."""
        self.complete: list[int] = []
        self._open: tuple[int, set[object]] | None = None

    def ready(self) -> list[tuple[str, int]]:
        arriving = [("arrive", channel) for channel, row in self.coming.items() if row]
        return arriving + [
            ("take", channel)
            for channel, queue in self.queues.items()
            if queue and channel not in self.blocked
        ]

    def arrive(self, channel: int) -> None:
        element = self.coming[channel].popleft()
        self.queues[channel].append(element)
        self._record(channel, element)

    def take(self, channel: int) -> None:
        element = self.queues[channel].popleft()
        if isinstance(element, str):
            self.taken.append(element)
        else:
            self._act(self.alignment.on(BarrierArrived(channel, CheckpointId(element))))

    def announce(self, checkpoint: CheckpointId) -> None:
        self._act(self.alignment.on(Announced(checkpoint)))

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Block():
                    self.blocked.add(action.channel)
                case Unblock():
                    self.blocked.clear()
                case TakeSnapshot():
                    self.cuts[action.checkpoint] = list(self.taken), []
                    self.complete.append(action.checkpoint)
                case Overtake():
                    self.cuts[action.checkpoint] = list(self.taken), []
                    self._open = action.checkpoint, set(action.channels)
                    for channel, queue in self.queues.items():
                        for element in list(queue):
                            self._record(channel, element)
                case Recorded():
                    open_cut, self._open = self._open, None
                    assert open_cut is not None
                    if not open_cut[1]:
                        self.complete.append(action.checkpoint)

    def _record(self, channel: int, element: int | str) -> None:
        if self._open is None or channel not in self._open[1]:
            return
        if isinstance(element, str):
            self.cuts[self._open[0]][1].append(element)
        elif element >= self._open[0]:
            self._open[1].discard(channel)
            self._act(self.alignment.on(BarrierSeen(channel, CheckpointId(element))))


@given(
    rows=CHANNELS,
    chance=st.randoms(use_true_random=False),
    overtakable=st.sets(st.integers(0, 3)),
)
def test_what_a_checkpoint_has_seen_and_what_it_has_overtaken_is_what_came_before_its_barriers(
    rows: list[list[int]], chance: random.Random, overtakable: set[int]
) -> None:
    named: dict[int, Row] = {
        channel: [
            f"{channel}.{place}" if element == 0 else element
            for place, element in enumerate(barriers_in(row))
        ]
        for channel, row in enumerate(rows)
    }
    receiver = Receiver(named, overtakable & set(named))
    announcements = [CheckpointId(n) for n in range(1, max(map(len, rows)) + 1)]

    while steps := receiver.ready():
        if announcements and chance.random() < 0.2:
            receiver.announce(announcements.pop(0))
            continue
        what, channel = chance.choice(steps)
        (receiver.arrive if what == "arrive" else receiver.take)(channel)

    for checkpoint in receiver.complete:
        seen, overtaken = receiver.cuts[checkpoint]
        before = [e for row in named.values() if checkpoint in row for e in row[: row.index(checkpoint)]]
        assert sorted(seen + overtaken) == sorted(e for e in before if isinstance(e, str)), checkpoint
        for channel in named:
            own = [e for e in seen + overtaken if e.startswith(f"{channel}.")]
            assert own == sorted(own, key=lambda e: int(e.partition(".")[2]))
    assert len(receiver.complete) == len(set(receiver.complete))


def test_time_that_begins_somewhere_moves_on_from_there() -> None:
    inputs = Inputs(["a"])
    inputs.begin(10)

    assert (inputs.now, inputs.watermark("a", 7), inputs.watermark("a", 12)) == (10, None, 12)
    assert inputs.mark("a") == (12, False)


def test_time_is_the_minimum_over_the_inputs() -> None:
    inputs = Inputs(["a", "b"])

    assert [
        inputs.watermark("a", 10),
        inputs.watermark("b", 7),
        inputs.watermark("b", 20),
        inputs.watermark("a", 9),
    ] == [None, 7, 10, None]


def test_an_idle_input_does_not_hold_time_back_and_cannot_turn_it_back() -> None:
    inputs = Inputs(["a", "b"])
    inputs.watermark("a", 10)

    assert inputs.idle("b", True) == 10
    assert inputs.idle("b", False) is None
    assert inputs.watermark("b", 5) is None
    assert inputs.watermark("b", 12) is None
    assert inputs.watermark("a", 11) == 11


def test_all_idle_says_so_and_time_stands() -> None:
    inputs = Inputs(["a", "b"])

    assert (inputs.idle("a", True), inputs.all_idle) == (None, False)
    assert (inputs.idle("b", True), inputs.all_idle) == (None, True)


def test_only_the_last_end_ends_the_input() -> None:
    inputs = Inputs(["a", "b"])

    assert [inputs.end("a"), inputs.end("a"), inputs.end("b")] == [False, False, True]


@given(
    events=st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.one_of(
                st.integers(-5, 20), st.booleans().map(lambda idle: f"idle {idle}"), st.just(MAX_WATERMARK)
            ),
        ),
        max_size=40,
    )
)
def test_time_follows_a_simple_model_and_never_goes_back(events: list[tuple[str, int | str]]) -> None:
    inputs = Inputs("abc")
    marks, idle, now = dict.fromkeys("abc", MIN_WATERMARK), set[str](), MIN_WATERMARK

    for channel, event in events:
        if isinstance(event, str):
            moved = inputs.idle(channel, event == "idle True")
            (idle.add if event == "idle True" else idle.discard)(channel)
        else:
            moved = inputs.watermark(channel, event)
            marks[channel] = max(marks[channel], event)
        unfinished = {name: mark for name, mark in marks.items() if mark < MAX_WATERMARK}
        counted = [mark for name, mark in unfinished.items() if name not in idle]
        lowest = min(counted, default=now) if unfinished else MAX_WATERMARK
        assert moved == (lowest if lowest > now else None)
        now = max(now, lowest)


def test_an_idle_input_holds_the_end_of_time_back_because_it_may_come_back() -> None:
    inputs = Inputs(["a", "b"])
    inputs.idle("b", True)

    assert inputs.watermark("a", 7) == 7
    assert inputs.watermark("a", MAX_WATERMARK) is None
    assert inputs.all_idle
    assert inputs.idle("b", False) is None
    assert inputs.watermark("b", 9) == 9
    assert inputs.watermark("b", MAX_WATERMARK) == MAX_WATERMARK
    assert not inputs.all_idle
