"""Which windows a record belongs to, by the numbers of the examples."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st

from tidegate.common import Duration
from tidegate.datastream.window import (
    CountWindow,
    CountWindowSerializer,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    GlobalWindowSerializer,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TimeWindowSerializer,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowSerializer,
)
from tidegate.errors import ConfigError, RecordError
from tidegate.runtime.operators.window.codec import WindowCodec

hours, seconds, millis = Duration.of_hours, Duration.of_seconds, Duration.of_millis


class Now:
    """Stands for the surroundings of an assigner: the clock shows `now`."""

    runtime: ClassVar[Any] = None

    def __init__(self, now: int) -> None:
        self._now = now

    def get_current_processing_time(self) -> int:
        return self._now

    def get_runtime_context(self) -> Any:
        return self.runtime


def windows(assigner: WindowAssigner, timestamp: int, now: int = 0) -> list[Any]:
    return list(assigner.assign_windows("record", timestamp, Now(now)))


def anything(value: Any) -> Any:
    """What a program without type checks may pass."""
    return value


def utc(*moment: int) -> int:
    return int(datetime(*moment[:6], tzinfo=UTC).timestamp() * 1_000)  # type: ignore[arg-type,misc] # integers


def test_daily_windows_with_an_offset_change_at_local_midnight() -> None:
    local_days = TumblingEventTimeWindows.of(Duration.of_days(1), hours(-8))
    last, following = utc(2020, 1, 1, 15, 59, 59) + 999, utc(2020, 1, 1, 16)

    assert windows(local_days, last) == [TimeWindow(utc(2019, 12, 31, 16), utc(2020, 1, 1, 16))]
    assert windows(local_days, following) == [TimeWindow(utc(2020, 1, 1, 16), utc(2020, 1, 2, 16))]


def test_a_record_is_in_size_by_slide_windows() -> None:
    by_seconds = SlidingEventTimeWindows.of(seconds(10), seconds(5))
    assert windows(by_seconds, 12_000) == [TimeWindow(10_000, 20_000), TimeWindow(5_000, 15_000)]

    by_hours = SlidingEventTimeWindows.of(hours(12), hours(1), hours(-8))
    found = windows(by_hours, utc(2020, 1, 1, 15, 30))
    assert len(found) == 12
    assert min(found) == TimeWindow(utc(2020, 1, 1, 4), utc(2020, 1, 1, 16))
    assert max(found) == TimeWindow(utc(2020, 1, 1, 15), utc(2020, 1, 2, 3))


def test_the_clock_decides_windows_of_processing_time() -> None:
    assert windows(TumblingProcessingTimeWindows.of(seconds(1)), 7, now=1_500) == [TimeWindow(1_000, 2_000)]
    assert windows(SlidingProcessingTimeWindows.of(millis(10), millis(5)), 7, now=2) == [
        TimeWindow(0, 10),
        TimeWindow(-5, 5),
    ]
    assert windows(ProcessingTimeSessionWindows.with_gap(millis(30)), 7, now=100) == [TimeWindow(100, 130)]


@given(
    time=st.integers(-(10**6), 10**6),
    size=st.integers(1, 1_000),
    slide=st.integers(1, 1_000),
    offset=st.integers(-2_000, 2_000),
)
def test_every_window_of_a_record_is_around_it_and_none_is_left_out(
    time: int, size: int, slide: int, offset: int
) -> None:
    found = windows(SlidingEventTimeWindows.of(millis(size), millis(slide), millis(offset)), time)

    starts = [start for start in range(time - size + 1, time + 1) if (start - offset) % slide == 0]
    assert sorted(window.start for window in found) == starts
    assert all(window.end - window.start == size for window in found)
    (tumbling,) = windows(TumblingEventTimeWindows.of(millis(size), millis(offset)), time)
    start = TimeWindow.get_window_start_with_offset(time, offset, size)
    assert tumbling == TimeWindow(start, start + size)
    assert tumbling.start <= time <= tumbling.max_timestamp()


def test_a_dynamic_gap_comes_from_the_record() -> None:
    class Length(SessionWindowTimeGapExtractor):
        def extract(self, element: str) -> int:
            return len(element)

    for extractor in (Length(), len):
        sessions = EventTimeSessionWindows.with_dynamic_gap(extractor)
        assert isinstance(sessions, DynamicEventTimeSessionWindows)
        assert windows(sessions, 10) == [TimeWindow(10, 16)]


def test_a_gap_that_is_none_fails_with_its_record() -> None:
    sessions = EventTimeSessionWindows.with_dynamic_gap(lambda record: 0)

    with pytest.raises(RecordError, match=r"the session gap of record 'record' is 0; expected milliseconds"):
        windows(sessions, 10)


def test_a_global_window_has_no_end_and_no_trigger() -> None:
    assert windows(GlobalWindows.create(), 5) == [GlobalWindow.get()]
    assert GlobalWindows.create().get_default_trigger(None) == NeverTrigger()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TumblingEventTimeWindows.of(anything(5)), "the size of a window is 5; expected a Duration"),
        (lambda: TumblingEventTimeWindows.of(millis(0)), "the size of a window is 0 ms; expected at least 1"),
        (
            lambda: SlidingEventTimeWindows.of(millis(5), millis(0)),
            "the slide of a window is 0 ms; expected at least 1",
        ),
        (
            lambda: EventTimeSessionWindows.with_gap(millis(-1)),
            "the gap of a session is -1 ms; expected at least 1",
        ),
        (
            lambda: EventTimeSessionWindows.with_dynamic_gap(anything(7)),
            "with_dynamic_gap takes a SessionWindowTimeGapExtractor or a function; got int",
        ),
    ],
)
def test_windows_that_cannot_be_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("serializer", "window"),
    [
        (TimeWindowSerializer(), TimeWindow(-5, 5)),
        (CountWindowSerializer(), CountWindow(7)),
        (GlobalWindowSerializer(), GlobalWindow()),
    ],
)
def test_a_window_is_found_again_by_its_bytes(serializer: WindowSerializer, window: Any) -> None:
    assert WindowCodec(serializer).decode(WindowCodec(serializer).encode(window)) == window


def test_a_serializer_that_does_not_fit_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"TimeWindowSerializer cannot write window CountWindow\(id=1\); got AttributeError"
    ):
        WindowCodec(TimeWindowSerializer()).encode(CountWindow(1))
