"""FailoverRegions of a job go down and come back."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tidegate.runtime.schedule.failover import Failover, GiveUp, PartFailed, Start, Stop, Tick
from tidegate.runtime.schedule.restart import FailureRate, FixedDelay


def test_a_part_comes_back_after_its_delay_when_nothing_decided_is_open() -> None:
    failover = Failover(FixedDelay(attempts=3, delay_ms=100))

    assert failover.on(PartFailed(2, now_ms=50)) == [Stop(2)]
    assert failover.down == {2}
    assert failover.on(Tick(now_ms=149, quiet=True)) == []
    assert failover.on(Tick(now_ms=150, quiet=False)) == []
    assert failover.on(Tick(now_ms=151, quiet=True)) == [Start(2)]
    assert failover.down == frozenset()


def test_a_part_that_does_not_come_back_waits_again() -> None:
    failover = Failover(FixedDelay(attempts=3, delay_ms=100))
    failover.on(PartFailed(0, now_ms=0))
    failover.on(Tick(now_ms=100, quiet=True))

    assert failover.on(PartFailed(0, now_ms=120)) == [Stop(0)]
    assert failover.on(Tick(now_ms=200, quiet=True)) == []
    assert failover.on(Tick(now_ms=220, quiet=True)) == [Start(0)]


def test_failures_of_all_parts_count_together() -> None:
    failover = Failover(FailureRate(most=2, interval_ms=1_000, delay_ms=0))

    assert [failover.on(PartFailed(part, now_ms=0)) for part in (0, 1, 2)] == [
        [Stop(0)],
        [Stop(1)],
        [GiveUp()],
    ]


@given(
    st.lists(
        st.one_of(
            st.builds(PartFailed, st.integers(0, 3), st.just(0)),
            st.builds(Tick, st.just(0), st.booleans()),
        )
    ),
    st.integers(0, 3),
)
def test_what_is_stopped_is_started_once_and_only_in_quiet(
    events: list[PartFailed | Tick], delay: int
) -> None:
    failover, down = Failover(FixedDelay(attempts=100, delay_ms=delay)), set[int]()

    for now, event in enumerate(events):
        timed = PartFailed(event.part, now) if isinstance(event, PartFailed) else Tick(now, event.quiet)
        for action in failover.on(timed):
            match action:
                case Stop():
                    assert isinstance(timed, PartFailed)
                    assert timed.part == action.part
                    down.add(action.part)
                case Start():
                    assert isinstance(timed, Tick)
                    assert timed.quiet
                    down.remove(action.part)
        assert failover.down == down
    assert {
        action.part for action in failover.on(Tick(10_000, quiet=True)) if isinstance(action, Start)
    } == down
