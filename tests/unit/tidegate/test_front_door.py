"""The front door gives every name it promises, to people and to type checkers, and only when asked."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate


def names_for_type_checkers() -> set[str]:
    tree = ast.parse(Path(tidegate.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


@pytest.mark.parametrize("name", tidegate.__all__)
def test_every_promised_name_is_there(name: str) -> None:
    assert getattr(tidegate, name).__name__.rpartition(".")[2] == name


def test_type_checkers_see_the_same_names() -> None:
    assert names_for_type_checkers() == set(tidegate.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'tidegate' has no attribute 'Flink'"):
        _ = tidegate.Flink


def test_names_are_offered_before_they_are_loaded() -> None:
    fresh = "import tidegate; tidegate.state, print(*dir(tidegate))"
    offered = subprocess.run([sys.executable, "-P", "-c", fresh], capture_output=True, text=True, check=True)

    first_program = {
        "KafkaSource",
        "KafkaSink",
        "MapFunction",
        "WatermarkStrategy",
        "state",
        "OutputTag",
        "Types",
    }
    assert {*first_program, "TumblingEventTimeWindows", *tidegate.__all__} <= set(offered.stdout.split())


def test_a_stream_says_what_it_is() -> None:
    env = tidegate.StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([1]).map(str).uid("texts").name("as text")

    assert repr(stream) == "<DataStream of 'as text', uid 'texts'>"
    assert repr(stream.key_by(len)) == "<KeyedStream of 'as text', uid 'texts'>"
