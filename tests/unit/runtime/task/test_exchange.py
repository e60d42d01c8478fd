from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.clock import ManualClock
from tidegate.common import Types
from tidegate.elements import Barrier, Batch, Element, EndOfInput, Watermark
from tidegate.errors import RecordError, UserCodeError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.keys import canonical, key_bytes, key_group, owner
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.graph.transformations import NEVER_MS, Forward, Hash, Partition, Rebalance
from tidegate.runtime.task.credit import FULL, Credit
from tidegate.runtime.task.exchange import Buffer, RecordWriter
from tidegate.runtime.task.routing import router


def edge(partition: Partition, targets: int, most: int = 128) -> JobEdge:
    return JobEdge("from", OperatorUid("from"), "to", partition, None, 1, targets, most)


RECORDS = st.lists(st.tuples(st.integers(-1000, 1000), st.integers(0, 99)), max_size=60)


@given(records=RECORDS, targets=st.integers(1, 9), timed=st.booleans(), most=st.sampled_from([16, 128, 1000]))
def test_a_keyed_record_goes_to_the_owner_of_its_key_group_in_order(
    records: list[tuple[int, int]], targets: int, timed: bool, most: int
) -> None:
    batch = Batch([v for v, _ in records], [t for _, t in records] if timed else None)
    shares = router(edge(Hash(lambda value: value % 17), targets, most), 0)(batch)

    arrived: dict[int, list[tuple[int, int | None, Any]]] = {}
    for target, share in shares:
        times = share.timestamps if share.timestamps is not None else [None] * len(share)
        assert (share.timestamps is not None) == timed or not records
        arrived.setdefault(target, []).extend(zip(share.values, times, share.keys or [], strict=True))
    expected: dict[int, list[tuple[int, int | None, Any]]] = {}
    for value, time in records:
        group = key_group(key_bytes(canonical(value % 17)), most)
        expected.setdefault(owner(group, targets, most), []).append(
            (value, time if timed else None, value % 17)
        )
    assert {target: rows for target, rows in arrived.items() if rows} == expected


@given(batches=st.lists(RECORDS, max_size=6), targets=st.integers(1, 7), index=st.integers(0, 6))
def test_dealing_in_turn_loses_nothing_and_is_even(
    batches: list[list[tuple[int, int]]], targets: int, index: int
) -> None:
    route = router(edge(Rebalance(), targets), index)
    counts = [0] * targets
    received: list[tuple[int, int]] = []

    for records in batches:
        for target, share in route(Batch([v for v, _ in records], [t for _, t in records])):
            counts[target] += len(share)
            received += zip(share.values, share.timestamps or [], strict=True)

    assert sorted(received) == sorted(record for records in batches for record in records)
    assert max(counts) - min(counts) <= 1


def test_two_senders_do_not_begin_with_the_same_receiver() -> None:
    first = [router(edge(Rebalance(), 3), index)(Batch(["x"]))[0][0] for index in range(3)]

    assert first == [0, 1, 2]


def test_forward_stays_in_its_subtask() -> None:
    batch = Batch([1, 2])

    assert router(edge(Forward(), 4), 2)(batch) == [(2, batch)]


def test_equal_keys_of_different_types_go_the_same_way() -> None:
    keyed = router(edge(Hash(lambda value: value), 8), 0)

    shares = keyed(Batch([1, 1.0, True]))

    assert [(len(share), share.keys) for _, share in shares] == [(3, [1, 1, 1])]


def test_a_key_that_is_not_what_was_declared_is_refused() -> None:
    keyed = router(edge(Hash(lambda value: value, Types.LONG()), 2), 0)

    with pytest.raises(RecordError):
        keyed(Batch(["one"]))


def test_a_selector_that_fails_is_blamed_with_its_record() -> None:
    keyed = router(edge(Hash(lambda value: 1 // value), 2), 0)

    with pytest.raises(
        UserCodeError, match="key selector behind operator 'from' failed on record 0: ZeroDiv"
    ):
        keyed(Batch([3, 0, 2]))


class Recorder:
    """A channel that remembers what was sent."""

    def __init__(self, credit: int) -> None:
        self.credit = Credit(credit)
        self.sent: list[Element] = []

    def send(self, element: Element) -> None:
        self.credit.used += len(element) if isinstance(element, Batch) else 0
        self.sent.append(element)


def test_a_gate_is_open_while_every_receiver_has_credit() -> None:
    channels = {0: Recorder(1), 1: Recorder(2)}
    gate = RecordWriter(edge(Rebalance(), 2), 0, dict(channels))

    assert gate.open
    gate.emit(Batch(["a", "b"]))
    assert not gate.open
    assert [len(channel.sent) for channel in channels.values()] == [1, 1]


def test_control_goes_to_every_receiver_and_costs_no_credit() -> None:
    channels = {0: Recorder(1), 1: Recorder(1)}
    gate = RecordWriter(edge(Rebalance(), 2), 0, dict(channels))

    gate.broadcast(Barrier(CheckpointId(1)))

    assert gate.open
    assert all(channel.sent == [Barrier(CheckpointId(1))] for channel in channels.values())


PIECES = st.lists(
    st.one_of(
        st.builds(
            lambda values, timed, keyed: Batch(
                values, values[:] if timed else None, values[:] if keyed else None
            ),
            st.lists(st.integers(0, 9), min_size=1, max_size=700),
            st.booleans(),
            st.booleans(),
        ),
        st.builds(Watermark, st.integers(0, 9)),
    ),
    max_size=12,
)


def flat(elements: list[Element]) -> list[object]:
    """Records with their columns, and control elements, in order."""
    found: list[object] = []
    for element in elements:
        if isinstance(element, Batch):
            columns = (element.timestamps, element.keys)
            found += [
                (value, *(column and column[place] for column in columns))
                for place, value in enumerate(element.values)
            ]
        else:
            found.append(element)
    return found


@pytest.mark.spec("001/S1-17")
@given(pieces=PIECES)
def test_a_buffer_keeps_order_and_columns_and_sends_only_what_is_full_or_overtaken(
    pieces: list[Element],
) -> None:
    channel = Recorder(99)
    buffer = Buffer(channel, NEVER_MS, ManualClock())

    for element in [*pieces, EndOfInput()]:
        buffer.send(element)

    assert flat(channel.sent) == flat([*pieces, EndOfInput()])
    assert buffer.wait_s is None
    for batch, following in itertools.pairwise(channel.sent):
        if isinstance(batch, Batch) and len(batch) < FULL and isinstance(following, Batch):
            same_columns = (batch.timestamps is None, batch.keys is None) == (
                following.timestamps is None,
                following.keys is None,
            )
            assert not same_columns


def test_a_gate_sends_what_its_buffers_have_held_long_enough() -> None:
    clock, channels = ManualClock(), {0: Recorder(9), 1: Recorder(9)}
    gate = RecordWriter(
        edge(Rebalance(), 2), 0, {to: Buffer(each, 30, clock) for to, each in channels.items()}
    )

    gate.emit(Batch(["a"]))
    clock.advance(20)
    gate.emit(Batch(["b", "c"]))

    clock.set(-3_600_000)  # the wall clock has no say
    assert gate.wait_s == pytest.approx(0.010)
    clock.advance(9)
    gate.flush_due()
    assert [channel.sent for channel in channels.values()] == [[], []]
    clock.advance(1)
    gate.flush_due()
    assert [channel.sent for channel in channels.values()] == [[Batch(["a", "c"])], []]
    assert gate.wait_s == pytest.approx(0.020)
    clock.advance(20)
    gate.flush_due()
    assert channels[1].sent == [Batch(["b"])]
    assert gate.wait_s is None
