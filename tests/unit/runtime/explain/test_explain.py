"""Explanations of programs; nothing of them runs."""

from __future__ import annotations

import ast
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.runtime.explain import explained, loops

Make = Callable[..., StreamExecutionEnvironment]
SVG = "{http://www.w3.org/2000/svg}"


def test_words_name_steps_chains_exchanges_state_and_slots(program: Make) -> None:
    assert program().explain().partition(": ")[2] == (
        "7 steps, 5 chains, 8 subtasks, 4 slots on embedded\n"
        "\n"
        "chain 1: 1 subtask, slots 'default'\n"
        "    1  Source: Collection Source  uid collection-1\n"
        "    -> REBALANCE to chain 2, 1 to 2 all-to-all; no chain because parallelism differs, records are repartitioned\n"
        "\n"
        "chain 2: 2 subtasks, slots 'default'\n"
        "    2  Flat Map  uid flat_map-1\n"
        "    3  Map       uid map-1, Unopened\n"
        "    -> HASH to chain 3, 2 to 2 all-to-all; no chain because records are repartitioned\n"
        "    -> FORWARD to chain 5, 2 to 2 pointwise; "
        "no chain because slot sharing groups differ, the downstream step starts a chain\n"
        "\n"
        "chain 3: 2 subtasks, slots 'default'\n"
        "    5  sum  uid sum-1\n"
        "    -> REBALANCE to chain 4, 2 to 1 all-to-all; no chain because parallelism differs, records are repartitioned\n"
        "\n"
        "chain 4: 1 subtask, slots 'default'\n"
        "    6  Sink: Print to Std. Out  uid print-1\n"
        "\n"
        "chain 5: 2 subtasks, slots 'loud'\n"
        "    7  Map                      uid map-2\n"
        "    8  Sink: Print to Std. Out  uid print-2\n"
        "\n"
        "state: backend filesystem\n"
        "  sum: per key, in 128 key groups\n"
        "\n"
        "slots: each slot is a process of its own: subtasks in different slots run in parallel\n"
        "  task manager 1, slot 1: chain 1 subtask 1, chain 2 subtask 1, chain 3 subtask 1, chain 4 subtask 1\n"
        "  task manager 2, slot 1: chain 2 subtask 2, chain 3 subtask 2\n"
        "  task manager 3, slot 1: chain 5 subtask 1\n"
        "  task manager 4, slot 1: chain 5 subtask 2\n"
    )


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        (
            {"taskmanager.numberOfTaskSlots": 2},
            "the 2 slots of a task manager are one process and share one interpreter lock",
        ),
        ({"execution.target": "inline"}, "all slots are in this process and share one interpreter lock"),
        ({"execution.target": "local[2]"}, "Spark places the subtasks"),
    ],
)
def test_words_say_what_slots_share(program: Make, settings: dict[str, object], note: str) -> None:
    assert f"slots: {note}" in program(**settings).explain()


def test_a_branch_within_a_chain_names_the_step_it_follows() -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    source = env.set_parallelism(1).from_parallel_collection([1])
    source.map(str).print()
    source.filter(bool).print()

    lines = env.explain().splitlines()

    (branch,) = [line for line in lines if "Filter" in line]
    assert branch.endswith("uid filter-1, after collection-1")
    assert sum("after" in line for line in lines) == 1
    assert "state: none per key" in lines


def test_a_chain_too_deep_for_python_says_so() -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    stream: DataStream = env.set_parallelism(1).from_parallel_collection([[1]])
    for _ in range(20):
        stream = stream.filter(bool)
    stream.print()

    assert "no chain because the generated code would be nested too deeply" in env.explain()


def test_the_picture_shows_every_step_exchange_and_subtask(program: Make, tmp_path: Path) -> None:
    file = tmp_path / "plan.svg"

    program().explain(svg=file)

    root = ET.parse(file).getroot()
    shown = [element.text for element in root.iter(f"{SVG}text")]
    assert root.tag == f"{SVG}svg"
    assert shown.count("Sink: Print to Std. Out") == 2
    assert [text for text in shown if text in ("REBALANCE", "HASH", "FORWARD")] == [
        "REBALANCE",
        "HASH",
        "FORWARD",
        "REBALANCE",
    ]
    assert "state per key · 128 key groups · filesystem" in shown
    assert {text for text in shown if text is not None and " · " in text and text[0].isdigit()} == {
        *("1 · 1", "2 · 1", "2 · 2", "3 · 1", "3 · 2", "4 · 1", "5 · 1", "5 · 2")
    }


def test_a_picture_of_names_with_markup_is_still_a_picture(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    env.from_parallel_collection([1]).map(str).name("<a> & 'b' " + "long(name, " * 10).print()

    env.explain(svg=tmp_path / "plan.svg")

    shown = "".join(ET.parse(tmp_path / "plan.svg").getroot().itertext())
    assert "<a> & 'b'" in shown


def test_a_picture_of_many_slots_says_how_many_are_left_out(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "embedded"})
    env.set_parallelism(30).from_parallel_collection([1]).print()

    env.explain(svg=tmp_path / "plan.svg")

    assert "and 6 more slots" in (tmp_path / "plan.svg").read_text(encoding="utf-8")


def test_the_code_of_every_chain_is_python_and_opens_nothing(program: Make) -> None:
    env = program()

    code = env.explain(code=True).removeprefix(f"{env.explain()}\n")

    functions = ast.parse(code).body
    assert [type(function) for function in functions] == [ast.FunctionDef] * 10
    headings = [line for line in code.splitlines() if line.startswith("# chain")]
    assert headings == [
        heading
        for heading in (
            "# chain 1: Source: Collection Source",
            "# chain 2: Flat Map -> Map",
            "# chain 3: sum",
            "# chain 4: Sink: Print to Std. Out",
            "# chain 5: Map -> Sink: Print to Std. Out",
        )
        for _ in ("with times", "without")
    ]
    assert "for v0 in results or ():" in code
    assert "for v, t, row in zip(values, timestamps, rows):" in code


def test_the_code_of_two_inputs_is_shown_for_each(connected: DataStream) -> None:
    connected.print()
    env = connected._env

    code = loops(explained(env._launch(tuple(env._sinks), None)))

    assert [line for line in code.splitlines() if "input" in line] == [
        f"# records {times} timestamps, input {number}" for number in (1, 2) for times in ("without", "with")
    ]
