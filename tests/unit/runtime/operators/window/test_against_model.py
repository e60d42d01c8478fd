"""The window operator against windows in a plain dict: records out of order, late ones, merges, crashes."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st

from tidegate.common import Duration
from tidegate.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK
from tidegate.runtime.operators.window.folding import Reducing
from tidegate.runtime.operators.window.windowing import Windowing

Step = tuple[Literal["put", "watermark", "save", "crash"], str, int]
Found = Counter[tuple[str, int, tuple[int, ...], int]]

GAP, SIZE, SLIDE = 5, 10, 4
millis = Duration.of_millis
ASSIGNERS: dict[str, WindowAssigner] = {
    "tumbling": TumblingEventTimeWindows.of(millis(SIZE), millis(3)),
    "sliding": SlidingEventTimeWindows.of(millis(SIZE), millis(SLIDE)),
    "sessions": EventTimeSessionWindows.with_gap(millis(GAP)),
}
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("ab"), st.integers(-20, 40)),
        st.tuples(st.just("watermark"), st.just(""), st.integers(-20, 60)),
        st.tuples(st.sampled_from(["save", "crash"]), st.just(""), st.just(0)),
    ),
    max_size=40,
)


@dataclass
class Pane:
    """A window of the model."""

    start: int
    end: int
    values: list[int] = field(default_factory=list)
    waiting: bool = False


@dataclass
class Model:
    """What should happen, in the simplest words."""

    kind: str
    lateness: int
    panes: dict[str, list[Pane]] = field(default_factory=lambda: {"a": [], "b": []})
    watermark: int = MIN_WATERMARK

    def put(self, key: str, at: int) -> Found:
        """A record whose value is its time."""
        found: Found = Counter()
        for start, end in self._assigned(at):
            pane = self._place(key, start, end)
            if pane is None:
                continue
            pane.values.append(at)
            if pane.end - 1 <= self.watermark:
                found[self._result(key, pane)] += 1
            else:
                pane.waiting = True
        return found

    def advance(self, watermark: int) -> Found:
        """Event time moves on."""
        self.watermark = max(self.watermark, watermark)
        found: Found = Counter()
        for key, panes in self.panes.items():
            for pane in panes:
                if pane.waiting and pane.end - 1 <= self.watermark:
                    pane.waiting = False
                    found[self._result(key, pane)] += 1
            panes[:] = [pane for pane in panes if not self._over(pane.end)]
        return found

    def _assigned(self, at: int) -> list[tuple[int, int]]:
        if self.kind == "sessions":
            return [(at, at + GAP)]
        slide, offset = (SIZE, 3) if self.kind == "tumbling" else (SLIDE, 0)
        starts = [start for start in range(at - SIZE + 1, at + 1) if (start - offset) % slide == 0]
        return [(start, start + SIZE) for start in starts]

    def _place(self, key: str, start: int, end: int) -> Pane | None:
        panes = self.panes[key]
        if self.kind == "sessions":
            met = [pane for pane in panes if pane.start <= end and start <= pane.end]
        else:
            met = [pane for pane in panes if pane.start == start]
        pane = Pane(min([start, *(p.start for p in met)]), max([end, *(p.end for p in met)]))
        if self._over(pane.end):
            return None
        for each in met:
            pane.values += each.values
            pane.waiting = pane.waiting or each.waiting
            panes.remove(each)
        panes.append(pane)
        return pane

    def _over(self, end: int) -> bool:
        return end - 1 + self.lateness <= self.watermark

    def _result(self, key: str, pane: Pane) -> tuple[str, int, tuple[int, ...], int]:
        return key, pane.start, tuple(sorted(pane.values)), pane.end - 1


def listing(key: Any, window: Any, elements: list[Any]) -> list[Any]:
    values = elements[0] if isinstance(elements[0], tuple) else elements
    return [(key, window.start, tuple(sorted(values)))]


def found(emitted: list[tuple[Any, int]]) -> Found:
    return Counter((*value, time) for value, time in emitted)


@pytest.mark.parametrize("kind", ASSIGNERS)
@pytest.mark.parametrize("combined", [False, True], ids=["buffered", "combined"])
@given(steps=STEPS, lateness=st.sampled_from([0, 3, 12]))
def test_disorder_lateness_and_crashes_give_what_a_dict_of_windows_gives(
    bench_at: Callable[..., Any], kind: str, combined: bool, steps: list[Step], lateness: int
) -> None:
    assigner = ASSIGNERS[kind]
    folding = Reducing(lambda a, b: a + b) if combined else None
    trigger = assigner.get_default_trigger(None)
    windowing = Windowing(assigner, trigger, folding, listing, lateness=lateness)
    with TemporaryDirectory() as root:
        play(bench_at(windowing, Path(root)), Model(kind, lateness), steps, combined)


def play(one: Any, model: Model, steps: list[Step], combined: bool) -> None:
    """Do the same with both and compare after each step; at the end nothing is left."""
    saved = copy.deepcopy(model)
    for what, key, time in [*steps, ("watermark", "", MAX_WATERMARK)]:
        match what:
            case "put":
                value = (time,) if combined else time
                assert found(one.put(value, at=time, key=key)) == model.put(key, time)
            case "watermark" if time > model.watermark:
                assert found(one.watermark(time)) == model.advance(time)
            case "save":
                one.save()
                saved = copy.deepcopy(model)
            case "crash":
                one.crash()
                model = copy.deepcopy(saved)
                model.watermark = MIN_WATERMARK
    assert one.stored() == (0, 0)
    one.close()
