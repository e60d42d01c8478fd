"""Records that the generated loop adds to open windows by itself, against the same operator that is called for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, strategies as st

from tidegate.common import Duration
from tidegate.datastream import AggregateFunction
from tidegate.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tidegate.elements import MAX_WATERMARK
from tidegate.runtime.operators.window.folding import Aggregating, Folding, FromInitial, Reducing
from tidegate.runtime.operators.window.panes import has_panes
from tidegate.runtime.operators.window.windowing import Windowing
from tidegate.runtime.stream.windows import ProcessWindowFunction

Record = tuple[int, int, str]
Step = list[Record] | int | str


class Asked(EventTimeTrigger):
    """Does what its base class does, but might not: so it is asked for every record."""


class Span(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return min(value, accumulator[0]), max(value, accumulator[1])

    def get_result(self, accumulator: tuple[int, int]) -> int:
        return accumulator[1] - accumulator[0]

    def merge(self, acc_1: tuple[int, int], acc_2: tuple[int, int]) -> tuple[int, int]:
        return min(acc_1[0], acc_2[0]), max(acc_1[1], acc_2[1])


class Listing(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Any:
        yield key, context.window(), context.current_watermark(), list(elements)


def fickle(a: Any, b: Any) -> Any:
    """Sometimes nothing, sometimes of another kind, sometimes something that can change."""
    return [None, (a, b), [a], f"{a}", b, b, b][len(f"{a}{b}") % 7]


def grown(a: list[int] | int, b: int) -> list[int]:
    """Changes what it was given."""
    held = a if isinstance(a, list) else [a]
    held.append(b)
    return held


ASSIGNERS: dict[str, WindowAssigner] = {
    "tumbling": TumblingEventTimeWindows.of(Duration.of_millis(10), Duration.of_millis(3)),
    "sessions": EventTimeSessionWindows.with_gap(Duration.of_millis(5)),
}
KEPT: dict[str, Callable[[], Folding | None]] = {
    "list": lambda: None,
    "text": lambda: Reducing(lambda a, b: f"{a} {b}"),
    "fickle": lambda: Reducing(fickle),
    "grown": lambda: Reducing(grown),
    "aggregate": lambda: Aggregating(Span()),
    "fold": lambda: FromInitial(lambda a, b: (*a, b), ()),
}
RECORDS = st.tuples(st.integers(0, 9), st.integers(-10, 60), st.sampled_from("abc"))
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.lists(RECORDS, min_size=1, max_size=12),
        st.lists(RECORDS, min_size=3, max_size=12).map(lambda records: sorted(records, key=lambda r: r[1])),
        st.integers(-10, 70),
        st.sampled_from(["save", "crash", "look"]),
    ),
    max_size=12,
)


@pytest.mark.parametrize("kind", ASSIGNERS)
@pytest.mark.parametrize("kept", KEPT)
@given(steps=STEPS, lateness=st.sampled_from([0, 4, 20]), cached=st.sampled_from([2, 1_000]))
@example(steps=[[(1, 0, "a"), (2, 4, "a"), (3, 8, "a")], 9, [(4, 12, "a")], 17], lateness=0, cached=1_000)
@example(steps=[[(1, 0, "a"), (2, 4, "a")], "save", [(3, 9, "a")], "crash", 60], lateness=4, cached=1_000)
@example(
    steps=[[(0, 0, "a")], "crash", [(0, 6, "a"), (0, 0, "a"), (0, 6, "a"), (0, 7, "a")]],
    lateness=0,
    cached=2,
)
def test_the_loop_and_the_operator_give_the_same_results_and_the_same_state(
    bench_at: Callable[..., Any], kind: str, kept: str, steps: list[Step], lateness: int, cached: int
) -> None:
    assigner, folding = ASSIGNERS[kind], KEPT[kept]()
    if kind == "sessions" and kept == "fold":
        folding = Reducing(lambda a, b: a - b)

    def opened(trigger: EventTimeTrigger, root: Path) -> Any:
        root.mkdir()
        windowing = Windowing(assigner, trigger, folding, Listing(), lateness=lateness)
        return bench_at(windowing, root, cache_entries=cached)

    with TemporaryDirectory() as root:
        loop = opened(EventTimeTrigger(), Path(root, "loop"))
        asked = opened(Asked(), Path(root, "asked"))
        for step in [*steps, MAX_WATERMARK]:
            assert played(loop, step) == played(asked, step)
        for one in (loop, asked):
            assert one.entries() == {}
            one.close()


def played(one: Any, step: Step) -> Any:
    """What a bench does in a step, and what is stored after some."""
    match step:
        case list():
            return one.put_all(step)
        case int():
            return one.watermark(step)
        case "save":
            return one.save()
        case "crash":
            return one.crash()
    return one.entries()


def test_the_loop_adds_all_but_the_first_record_of_a_window(bench: Callable[..., Any]) -> None:
    for assigner in ASSIGNERS.values():
        one = bench(Windowing(assigner, EventTimeTrigger(), Reducing(lambda a, b: a + b)))
        with patch.object(one.operator, "_add", wraps=one.operator._add) as called:
            one.put_all([(value, at, "k") for value, at in ((1, 3), (2, 4), (4, 8), (8, 12))])

        assert called.call_count == 1
        assert [value for value, _ in one.watermark(100)] == [15]


def test_only_windows_whose_records_all_mean_the_same_have_panes() -> None:
    tumbling = ASSIGNERS["tumbling"]

    class OnWeekdays(TumblingEventTimeWindows):
        pass

    assert has_panes(tumbling, EventTimeTrigger())
    assert not has_panes(OnWeekdays(10), EventTimeTrigger())
    for trigger in (Asked(), CountTrigger.of(2), PurgingTrigger.of(EventTimeTrigger())):
        assert not has_panes(tumbling, trigger)
