"""Operators of other packages: one file and an entry point."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.packages.install import install
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import ConfigError
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.graph.transformations import UNION
from tidegate.runtime.operators.functions import CO_MAP, MAP
from tidegate.runtime.operators.operator import Call, Operator, StepInput, StepKind

FIRST_OF_KEY = """
from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.runtime.operators.operator import Call, Operator, StepInput, StepKind


def open_first(node, context):
    store = context.keyed_store("keeps what it has seen")
    seen = store.value_state(ValueStateDescriptor("seen"))

    def first(value):
        if seen.value():
            return False
        seen.update(True)
        return True

    return Operator((Call("filter", first, bind=store.cursor),), store)


FIRST = StepKind("first_of_key", open_first, inputs=(StepInput("required"),), keeps_records=True, nests=True)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with an operator, installed here and in workers."""
    entry_points = "[tidegate.operators]\nfirst-of-key = first_of_key:FIRST\n"
    install(tmp_path, monkeypatch, "first-of-key", FIRST_OF_KEY, entry_points)


@pytest.mark.usefixtures("installed")
def test_an_operator_of_another_package_runs_with_state(anywhere: StreamExecutionEnvironment) -> None:
    words = anywhere.from_collection(["a", "b", "a", "c", "b", "a"]).key_by(lambda word: word)

    once = words.transform("once", "first-of-key").map(str.upper)

    assert sorted(once.execute_and_collect()) == ["A", "B", "C"]


@pytest.mark.usefixtures("installed")
def test_its_name_is_in_plans_and_in_automatic_uids() -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    words = env.from_collection(["a"]).key_by(lambda word: word)

    words.transform("once", "first-of-key").print()
    words.transform("first_of_key", "first-of-key").uid("again").print()

    types = [node["type"] for node in json.loads(env.get_execution_plan())["nodes"]]
    assert "once" in types
    assert "First Of Key" in types
    assert "once-1" in env.explain()


def _open_scaled(node: object, context: object) -> Operator:
    return Operator((Call("map", lambda value: 3 * value),))


def test_an_operator_written_beside_the_program_travels_by_value(
    anywhere: StreamExecutionEnvironment,
) -> None:
    scaled = anywhere.from_collection([1, 2]).transform("scaled", StepKind("scale", _open_scaled))

    assert sorted(scaled.execute_and_collect()) == [3, 6]


def test_ours_can_be_used_the_same_way(anywhere: StreamExecutionEnvironment) -> None:
    doubled = anywhere.from_collection([1, 2]).transform("doubled", MAP, lambda value: 2 * value)

    assert sorted(doubled.execute_and_collect()) == [2, 4]


def _open_labelled(node: StreamNode, context: object) -> Operator:
    return Operator(tuple(Call("map", partial(str.format, node.payload, side)) for side in ("left", "right")))


def test_an_operator_may_have_two_inputs(anywhere: StreamExecutionEnvironment) -> None:
    label = StepKind("label", _open_labelled, inputs=(StepInput(), StepInput()))
    left, right = anywhere.from_collection([1]), anywhere.from_collection([2])

    labelled = left.connect(right).transform("labelled", label, "{} {}")

    assert sorted(labelled.execute_and_collect()) == ["left 1", "right 2"]


@pytest.mark.usefixtures("installed")
def test_what_does_not_fit_is_refused_when_the_program_is_written() -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    words = env.from_collection(["a"])

    with pytest.raises(ConfigError, match=r"operator 'first_of_key' needs a key .*; use key_by"):
        words.transform("once", "first-of-key")
    with pytest.raises(
        ConfigError, match="no operator is called 'first-of-keys'; did you mean 'first-of-key'"
    ):
        words.transform("once", "first-of-keys")
    with pytest.raises(ConfigError, match="transform takes a StepKind; got function"):
        words.transform("once", lambda value: value)  # type: ignore[arg-type]  # what a user may try
    for wrong, got in ((CO_MAP, "operator 'co_map'; inputs: 2"), (UNION, "union 'union'; inputs: 1")):
        with pytest.raises(ConfigError, match=f"one input per stream; got {got}; streams: 1"):
            words.transform("once", wrong)
    with pytest.raises(ConfigError, match="one input per stream; got operator 'map'; inputs: 1; streams: 2"):
        words.connect(words).transform("once", MAP, str)
