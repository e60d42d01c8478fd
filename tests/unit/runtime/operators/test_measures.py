"""What functions measure, looked at while they go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tidegate.errors import ConfigError
from tidegate.ids import Subtask
from tidegate.runtime.accumulators import Accumulator, DoubleCounter, IntCounter
from tidegate.runtime.metrics import MetricGroup
from tidegate.runtime.operators.measures import Measured, Measures, followed, totals


class Met(Accumulator):
    """The names that were added."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}

    def add(self, value: str) -> None:
        self.names[value] = 1

    def get_local_value(self) -> list[str]:
        return sorted(self.names)

    def merge(self, other: Met) -> None:
        self.names |= other.names


class Watched:
    """Calls somebody whenever it is packed."""

    def __init__(self, packed: Callable[[], None]) -> None:
        self.packed = packed

    def __reduce__(self) -> Any:
        self.packed()
        return int, (1,)


def test_what_another_thread_adds_to_while_it_is_looked_at_is_shown_at_the_next_look() -> None:
    looked, added = threading.Event(), threading.Event()
    met, measures = Met(), Measures()
    measures.add(Subtask("count-1", 0), "met", met)
    met.add("ada")
    assert totals([measures.measured()]) == {"met": ["ada"]}

    def in_the_midst() -> None:
        looked.set()
        assert added.wait(10)

    def add_meanwhile() -> None:
        assert looked.wait(10)
        met.add("bob")
        added.set()

    met.names["cyd"] = Watched(in_the_midst)
    thread = threading.Thread(target=add_meanwhile)
    thread.start()

    assert totals([measures.measured()]) == {"met": ["ada"]}
    assert totals([measures.measured()]) == {"met": ["ada", "bob", "cyd"]}
    thread.join()


def test_an_accumulator_that_cannot_be_packed_is_an_error() -> None:
    def fail() -> None:
        raise RuntimeError("no")

    met, measures = Met(), Measures()
    measures.add(Subtask("count-1", 0), "met", met)
    met.names["ada"] = Watched(fail)

    with pytest.raises(
        ConfigError, match="an accumulator cannot be sent to another process: RuntimeError: no"
    ):
        measures.measured()


def counted(name: str, numbers: list[int], accumulator: Accumulator | None = None) -> Measured:
    """What a function measures between its opening and its end."""
    measures = Measures()
    group = MetricGroup("step", measures.metrics, lambda: 0.0)
    for number in numbers:
        group.counter(name).inc()
        group.distribution(f"{name} sizes").update(number)
    group.gauge("last", lambda: numbers[-1])
    if accumulator is not None:
        accumulator.add(len(numbers))
        measures.add(Subtask("count-1", 0), "records", accumulator)
    return measures.measured()


def test_what_adds_up_is_added_to_what_was_measured_before_and_the_rest_replaces_it() -> None:
    both = followed(counted("seen", [3, 1], IntCounter()), counted("seen", [7], IntCounter()))
    both = followed(both, counted("heard", [5]))

    assert both.metrics == {
        "step.seen": 3,
        "step.seen sizes": {"count": 3, "sum": 11, "min": 1, "max": 7},
        "step.heard": 1,
        "step.heard sizes": {"count": 1, "sum": 5, "min": 5, "max": 5},
        "step.last": 5,
    }
    assert totals([both]) == {"records": 3}


def test_a_distribution_that_has_seen_nothing_yet_has_no_extremes_to_add() -> None:
    nothing: dict[str, int | float] = {"count": 0, "sum": 0}
    seen: dict[str, int | float] = {"count": 1, "sum": 4, "min": 4, "max": 4}
    sums = frozenset({"sizes"})
    for first, second in ((nothing, seen), (seen, nothing)):
        both = followed(Measured({"sizes": first}, sums=sums), Measured({"sizes": second}, sums=sums))
        assert both.metrics == {"sizes": seen}


def test_an_accumulator_that_changes_its_class_between_epochs_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="accumulator 'records' has two types: IntCounter in one function and Doub"
    ):
        followed(counted("seen", [1], IntCounter()), counted("seen", [1], DoubleCounter()))
