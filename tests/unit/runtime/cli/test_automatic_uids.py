"""A program without uids is changed and started again: `plan`, `check` and the start agree on whose state is whose."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.runtime.checkpoint.manifest import decode, encode
from tidegate.runtime.cli.main import main

PROGRAM = """
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state
from tidegate.types import Types

class Total(KeyedProcessFunction):
    {field} = state.Value({type}, default={type}())

    def process_element(self, value, ctx):
        self.{field}.update(self.{field}.value() + {type}(1))
        yield ctx.get_current_key(), int(self.{field}.value())

class First(KeyedProcessFunction):
    count = state.Value(int, default=0)

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        yield value

def total(stream):
    return stream.key_by({key}).process(Total())

def first(stream):
    return stream.key_by(lambda number: number).process(First())

def named(stream):
    return stream.key_by({key}).process(Total()).uid("totals")

def odd(stream):
    return stream.filter(lambda number: number % 2 >= 0)

env = StreamExecutionEnvironment.get_execution_environment()
stream = env.from_source(GeneratorSource(lambda n: n, count=4))
for step in ({steps}):
    stream = step(stream)
stream.map(repr).print()
env.execute("changed")
"""

Command = Callable[..., int]
INLINE = "execution.target=inline"
EMBEDDED = "execution.target=embedded"
AGAIN = ("--map", "source-1=")
"""Leaves behind how far the source was, so that a start from the end of a run reads everything again."""


@pytest.fixture
def do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Writes the program in a version of its own and hands it to a command."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    def command(name: str, *options: str, steps: str = "total,", target: str = INLINE, **version: Any) -> int:
        written = {"field": "count", "type": "int", "key": "lambda number: number % 2"} | version
        (tmp_path / "job.py").write_text(PROGRAM.format(steps=steps, **written))
        settings = [
            target,
            "pipeline.progress=off",
            "parallelism.default=1",
            f"state.checkpoints.dir={tmp_path}/state",
        ]
        given = [word for setting in settings for word in ("-D", setting)]
        return main([name, *given, *options, "job.py"])

    return command


@pytest.fixture
def again(do: Command, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[bool, str]]:
    """Starts a changed program from checkpoint 1; `plan` and `check` must have said the same as the start."""

    def start(*options: str, **version: Any) -> tuple[bool, str]:
        capfd.readouterr()
        told = {}
        for command in ("plan", "check"):
            do(command, "--json", "-s", "1", *options, **version)
            told[command] = json.loads(capfd.readouterr().out)
        started = do("run", "-s", "1", *options, **version) == 0
        said = capfd.readouterr()
        assert bool(told["plan"]["obstacles"]) != started
        assert told["check"]["ok"] == started
        for obstacle in told["plan"]["obstacles"]:
            assert obstacle in said.err
        return started, said.out if started else said.err

    return start


def without_shapes(place: Path) -> None:
    """Make all checkpoints as those of versions that did not keep shapes."""
    found = list((place / "state").glob("*/chk-*/_metadata"))
    assert found
    for path in found:
        manifest = decode(path.read_bytes(), str(path))
        assert all(each.shape is not None for each in manifest.operators)
        operators = tuple(msgspec.structs.replace(each, shape=None) for each in manifest.operators)
        path.write_bytes(encode(msgspec.structs.replace(manifest, operators=operators)))


@pytest.mark.parametrize("target", [INLINE, EMBEDDED])
@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
def test_a_keyed_step_put_in_front_of_another_does_not_get_its_state(
    do: Command, again: Callable[..., tuple[bool, str]], target: str, backend: str
) -> None:
    settings = ("-D", f"state.backend.type={backend}")
    assert do("run", *settings, target=target) == 0

    started, said = again(*settings, steps="first, total,", target=target)

    assert not started
    assert "--map process-1=process-2\n" in said
    assert '.uid("process-1")' in said
    assert "process Total  has state" in said
    assert said.index("--map process-1=process-2") < said.index("--map process-1=process-1")

    started, said = again(
        *settings, *AGAIN, "--map", "process-1=process-2", steps="first, total,", target=target
    )
    assert started
    assert {"(0, 4)", "(1, 4)"} <= set(said.splitlines())


@pytest.mark.parametrize("old", [False, True], ids=["with shapes", "from before"])
def test_a_step_without_state_changes_nothing(
    do: Command, again: Callable[..., tuple[bool, str]], tmp_path: Path, old: bool
) -> None:
    assert do("run") == 0
    if old:
        without_shapes(tmp_path)

    started, said = again(*AGAIN, steps="odd, total,")

    assert started
    assert {"(0, 4)", "(1, 4)"} <= set(said.splitlines())


def test_an_old_checkpoint_is_refused_where_counting_is_ambiguous(
    do: Command, again: Callable[..., tuple[bool, str]], tmp_path: Path
) -> None:
    assert do("run") == 0
    without_shapes(tmp_path)

    started, said = again(steps="first, total,")

    assert not started
    assert "process-1: 1 steps without a uid were named 'process', now 2 are" in said
    assert "  --map process-1=process-2\n" in said
    assert again("--map", "process-1=process-2", steps="first, total,")[0]


def test_a_step_that_is_named_now_gets_its_state_by_the_map(
    do: Command, again: Callable[..., tuple[bool, str]]
) -> None:
    assert do("run") == 0

    started, said = again(steps="named,")
    assert not started
    assert "--map process-1=totals\n" in said

    started, said = again(*AGAIN, "--map", "process-1=totals", steps="named,")
    assert started
    assert "(0, 4)" in said


def test_state_is_left_behind_if_the_map_says_so(do: Command, again: Callable[..., tuple[bool, str]]) -> None:
    assert do("run") == 0

    started, said = again(*AGAIN, "--map", "process-1=", steps="first, total,")

    assert started
    assert "(0, 1)" in said


def test_steps_of_one_kind_that_change_places_are_told_apart_by_their_functions(
    do: Command, again: Callable[..., tuple[bool, str]]
) -> None:
    assert do("run", steps="first, total,") == 0

    started, said = again(steps="total, named,")

    assert not started
    assert "--map process-2=process-1\n" in said


@pytest.mark.parametrize("steps", ["total,", "named,"], ids=["automatic uid", "given uid"])
def test_renamed_state_is_asked_about(
    do: Command, again: Callable[..., tuple[bool, str]], steps: str
) -> None:
    assert do("run", steps=steps) == 0

    started, said = again(steps=steps, field="seen")
    assert not started
    assert "holds state 'count', which its function does not declare" in said
    assert "declares 'seen'" in said

    started, said = again(*AGAIN, "--allow-non-restored-state", steps=steps, field="seen")
    assert started
    assert "(0, 1)" in said


@pytest.mark.parametrize("steps", ["total,", "named,"], ids=["automatic uid", "given uid"])
def test_another_key_type_is_asked_about(
    do: Command, again: Callable[..., tuple[bool, str]], steps: str
) -> None:
    assert do("run", steps=steps, key="lambda number: number % 2, Types.LONG()") == 0
    changed = "lambda number: str(number % 2), Types.STRING()"

    started, said = again(steps=steps, key=changed)

    assert not started
    assert "its keys were declared as long and are string now" in said
    assert again("--map", f"{'totals' if steps == 'named,' else 'process-1'}=", steps=steps, key=changed)[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("counts=process-1", r"checkpoint 1 holds no state of 'counts'"),
        ("process-1=totals", r"the program has no operator 'totals'; expected one of .*process-1"),
        ("process-1", r"--map cannot be parsed; got 'process-1'"),
        ("process-1=process-1,source-1=process-1", r"--map names 'process-1' twice on one side"),
        ("process-1=print-1", r"renames a sink"),
        ("source-1=process-1", r"also holds state of 'process-1'"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(
    do: Command, capfd: pytest.CaptureFixture[str], given: str, said: str
) -> None:
    assert do("run") == 0
    capfd.readouterr()

    assert do("run", "-s", "1", "--map", given) == 2

    assert re.search(said, capfd.readouterr().err)


Planned = Callable[..., "tuple[int, list[dict[str, Any]], list[str]]"]


@pytest.fixture
def planned(do: Command, capfd: pytest.CaptureFixture[str]) -> Planned:
    """What `plan` says of a changed program: exit code, operators without the source, and obstacles."""

    def plan(*options: str, **version: Any) -> tuple[int, list[dict[str, Any]], list[str]]:
        capfd.readouterr()
        code = do("plan", "--json", "-s", "1", *options, **version)
        told = json.loads(capfd.readouterr().out)
        assert do("plan", "-s", "1", *options, **version) == code
        shown = capfd.readouterr().out
        assert all(f"to be decided: {obstacle}" in shown for obstacle in told["obstacles"])
        return code, [each for each in told["operators"] if each["uid"] != "source-1"], told["obstacles"]

    return plan


def fates(operators: list[dict[str, Any]]) -> list[tuple[str, str, dict[str, str]]]:
    """What becomes of each operator and of its states."""
    return [
        (each["uid"], each["verdict"], {state["name"]: state["verdict"] for state in each["states"]})
        for each in operators
    ]


def test_plan_shows_a_contested_uid_as_undecided_with_both_graphs_and_a_line_for_each_choice(
    do: Command, planned: Planned
) -> None:
    assert do("run") == 0

    code, operators, (obstacle,) = planned(steps="first, total,")

    assert code == 4
    assert fates(operators) == [
        ("process-1", "undecided", {"count": "undecided"}),
        ("process-2", "new", {"count": "new"}),
    ]
    assert operators[0]["why"].startswith("its function was Total and is First now, its position was ")
    assert re.search(r"process-1  process Total  has state +process-1  process First\n", obstacle)
    assert re.findall(r"^  --map (\S+)", obstacle, re.MULTILINE) == [
        "process-1=process-2",
        "process-1=process-1",
        "process-1=",
    ]


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (
            "process-1=process-2",
            [("process-1", "new", {"count": "new"}), ("process-2", "restored", {"count": "restored"})],
        ),
        (
            "process-1=process-1",
            [("process-1", "restored", {"count": "restored"}), ("process-2", "new", {"count": "new"})],
        ),
        (
            "process-1=",
            [
                ("process-1", "new", {"count": "new"}),
                ("process-2", "new", {"count": "new"}),
                ("process-1", "lost", {"count": "lost"}),
            ],
        ),
    ],
    ids=["to the moved step", "to the step of the uid", "left behind"],
)
def test_plan_shows_what_a_line_of_the_map_decides(
    do: Command, planned: Planned, decision: str, expected: list[Any]
) -> None:
    assert do("run") == 0

    code, operators, obstacles = planned("--map", decision, steps="first, total,")

    assert (code, obstacles) == (0, [])
    assert fates(operators) == expected


def test_plan_shows_a_step_that_is_named_now_as_new_and_its_state_as_undecided(
    do: Command, planned: Planned
) -> None:
    assert do("run") == 0

    code, operators, (obstacle,) = planned(steps="named,")

    assert code == 4
    assert fates(operators) == [
        ("totals", "new", {"count": "new"}),
        ("process-1", "undecided", {"count": "undecided"}),
    ]
    assert re.findall(r"^  --map (\S+)", obstacle, re.MULTILINE) == ["process-1=totals", "process-1="]
    assert fates(planned("--map", "process-1=totals", steps="named,")[1]) == [
        ("totals", "restored", {"count": "restored"})
    ]


def test_plan_shows_renamed_state_as_incompatible_until_it_is_given_up(do: Command, planned: Planned) -> None:
    assert do("run") == 0

    code, (operator,), (obstacle,) = planned(field="seen")

    assert (code, operator["verdict"]) == (4, "incompatible")
    assert "holds state 'count', which its function does not declare" in obstacle
    code, operators, obstacles = planned("--allow-non-restored-state", field="seen")
    assert (code, obstacles) == (0, [])
    assert fates(operators) == [("process-1", "restored", {"count": "unused", "seen": "new"})]


def test_plan_shows_state_under_another_key_type_as_undecided(do: Command, planned: Planned) -> None:
    assert do("run", key="lambda number: number % 2, Types.LONG()") == 0

    code, operators, (obstacle,) = planned(key="lambda number: str(number % 2), Types.STRING()")

    assert (code, fates(operators)) == (4, [("process-1", "undecided", {"count": "undecided"})])
    assert "its keys were declared as long and are string now" in operators[0]["why"]
    assert re.findall(r"^  --map (\S+)", obstacle, re.MULTILINE) == ["process-1=process-1", "process-1="]


@pytest.mark.parametrize("given", ["process-1=totals", "counts=process-1", "process-1"])
def test_plan_refuses_a_map_that_does_not_fit_as_the_start_does(
    do: Command, capfd: pytest.CaptureFixture[str], given: str
) -> None:
    assert do("run") == 0
    said = []
    for command in ("plan", "run"):
        capfd.readouterr()
        assert do(command, "-s", "1", "--map", given) == 2
        said.append(capfd.readouterr().err.strip().splitlines()[-1])

    assert said[0] == said[1]
