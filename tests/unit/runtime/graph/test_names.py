"""What plans call steps and functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from tidegate.runtime.graph.names import FunctionNames, title
from tidegate.runtime.graph.transformations import Transformation

Step = Callable[..., Transformation]


class Adder:
    def reduce(self, one: int, two: int) -> int:
        return one + two


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("source", "Source: CollectionSource"),
        ("map", "Map"),
        ("filter", "Filter"),
        ("flat_map", "Flat Map"),
        ("process", "Process"),
        ("reduce", "Reduce"),
        ("co_map", "Co-Map"),
        ("co_flat_map", "Co-Flat Map"),
        ("co_process", "Co-Process"),
        ("sink", "Sink: PrintSink"),
    ],
)
def test_a_step_without_a_name_is_called_by_its_kind(step: Step, kind: str, expected: str) -> None:
    assert title(step(kind), FunctionNames()) == expected


def test_a_label_stands_for_the_name(step: Step) -> None:
    assert (
        title(step("source", name="socket", label="Socket Stream"), FunctionNames())
        == "Source: Socket Stream"
    )


def test_a_label_may_name_functions(step: Step) -> None:
    def label(names: FunctionNames) -> str:
        return f"Window({names.of(max, 'ReduceFunction')}, {names.of(Adder(), 'ReduceFunction')})"

    assert title(step("map", label=label), FunctionNames()) == "Window(ReduceFunction$1, Adder)"


def test_a_given_name_is_kept(step: Step) -> None:
    assert title(step("sink", name="orders"), FunctionNames()) == "Sink: orders"


@pytest.mark.parametrize(
    "nameless",
    [lambda one, two: one, Adder().reduce, max, functools.partial(max, 1), str.upper, int],
    ids=["lambda", "method", "builtin", "partial", "descriptor", "type"],
)
def test_functions_without_a_class_are_numbered_by_interface(nameless: Any) -> None:
    names = FunctionNames()

    assert names.of(Adder(), "ReduceFunction") == "Adder"
    assert names.of(nameless, "ReduceFunction") == "ReduceFunction$1"
    assert names.of(Adder().reduce, "ReduceFunction") == "ReduceFunction$2"
    assert names.of(nameless, "AggregateFunction") == "AggregateFunction$1"
    assert names.of(nameless, "ReduceFunction") == "ReduceFunction$1"
