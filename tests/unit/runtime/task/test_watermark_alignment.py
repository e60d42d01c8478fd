"""Who may read how far, for the sake of whom."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tidegate.elements import MAX_WATERMARK
from tidegate.ids import Subtask
from tidegate.runtime.stream.watermarks import Aligned
from tidegate.runtime.task.messages import TimeReached
from tidegate.runtime.task.watermark_alignment import Allow, WatermarkAlignment

A, B, C = (Subtask(name, 0) for name in "abc")


def alignment() -> WatermarkAlignment:
    return WatermarkAlignment({A: Aligned("one", 100), B: Aligned("one", 30), C: Aligned("other", 5)})


def test_nobody_may_go_on_before_all_have_said_where_they_are() -> None:
    machine = alignment()

    assert machine.on(TimeReached(A, 50)) == []
    assert machine.on(TimeReached(B, 40)) == [Allow(A, 140), Allow(B, 70)]


def test_only_a_limit_that_moved_is_announced_and_only_to_its_group() -> None:
    machine = alignment()
    machine.on(TimeReached(A, 50))
    machine.on(TimeReached(B, 40))

    assert machine.on(TimeReached(A, 90)) == []
    assert machine.on(TimeReached(B, 60)) == [Allow(A, 160), Allow(B, 90)]
    assert machine.on(TimeReached(C, 1)) == [Allow(C, 6)]


def test_an_idle_source_holds_nobody_back_until_it_is_there_again() -> None:
    machine = alignment()
    machine.on(TimeReached(A, 500))

    assert machine.on(TimeReached(B, None)) == [Allow(A, 600), Allow(B, 530)]
    assert machine.on(TimeReached(B, 20)) == [Allow(A, 120), Allow(B, 50)]


def test_when_nobody_is_left_to_wait_for_there_is_no_limit() -> None:
    machine = alignment()
    machine.on(TimeReached(A, None))

    assert machine.on(TimeReached(B, None)) == [Allow(A, MAX_WATERMARK), Allow(B, MAX_WATERMARK)]


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.none() | st.integers(0, 1_000))))
def test_the_slowest_may_always_read(reports: list[tuple[Subtask, int | None]]) -> None:
    machine, limits, times = alignment(), dict[Subtask, int](), dict[Subtask, int | None]()
    for subtask, time in reports:
        times[subtask] = time
        limits |= {each.subtask: each.limit for each in machine.on(TimeReached(subtask, time))}
        if times.keys() == {A, B}:
            counted = {mate: at for mate, at in times.items() if at is not None}
            slowest = min(counted, key=lambda mate: counted[mate], default=None)
            assert slowest is None or limits[slowest] >= counted[slowest]
            assert all(limits[mate] <= MAX_WATERMARK for mate in times)
