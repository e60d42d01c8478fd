"""Windows that become one, and where their contents stay."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tidegate.common import Duration
from tidegate.datastream.window import EventTimeSessionWindows, TimeWindow
from tidegate.runtime.operators.window.merging import Added, MergingWindows

SESSIONS = EventTimeSessionWindows.with_gap(Duration.of_millis(10))


def session(start: int) -> TimeWindow:
    return TimeWindow(start, start + 10)


def test_three_windows_become_one_that_keeps_the_contents_where_the_first_had_them() -> None:
    a, b, c = session(0), session(12), session(24)
    windows = MergingWindows({a: a, b: b, c: c}, SESSIONS)

    added = windows.add(TimeWindow(9, 25))

    d = TimeWindow(0, 34)
    assert added == Added(d, home=a, merged=(a, b, c), folded=(b, c))
    assert windows.homes == {d: a}


def test_a_window_inside_another_changes_nothing() -> None:
    wide = TimeWindow(0, 30)
    windows = MergingWindows({wide: session(5)}, SESSIONS)

    assert windows.add(session(7)) == Added(wide, home=session(5))
    assert windows.homes == {wide: session(5)}


def test_windows_that_touch_become_one_and_others_stay_apart() -> None:
    windows = MergingWindows({session(0): session(0)}, SESSIONS)

    assert windows.add(session(21)).window == session(21)
    assert windows.add(session(10)).window == TimeWindow(0, 20)
    assert sorted(windows.homes) == [TimeWindow(0, 20), session(21)]


def test_a_window_that_ended_is_forgotten() -> None:
    windows = MergingWindows({session(0): session(0)}, SESSIONS)
    windows.retire(session(0))

    assert windows.add(session(5)).window == session(5)


@given(st.lists(st.integers(-100, 100), max_size=30))
def test_in_any_order_the_same_windows_remain_and_no_contents_are_lost(starts: list[int]) -> None:
    windows = MergingWindows({}, SESSIONS)
    contents: dict[TimeWindow, int] = {}
    for start in starts:
        added = windows.add(session(start))
        contents[added.home] = contents.get(added.home, 0) + 1
        for place in added.folded:
            contents[added.home] += contents.pop(place)

    expected: list[TimeWindow] = []
    for window in map(session, sorted(starts)):
        if expected and expected[-1].intersects(window):
            expected[-1] = expected[-1].cover(window)
        else:
            expected.append(window)
    assert sorted(windows.homes) == expected
    assert sorted(contents) == sorted(windows.homes.values())
    assert sum(contents.values()) == len(starts)
