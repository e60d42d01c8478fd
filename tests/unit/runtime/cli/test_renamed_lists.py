"""State without keys under another name is asked about as state of keys is, by `plan`, `check` and the start."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.runtime.cli.main import main

LIST = """
class Kept(MapFunction, CheckpointedFunction):
    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.seen = store.{method}(ListStateDescriptor("{name}"))
        {more}

    def map(self, value):
        self.seen.add(value)
        return len(self.seen.get())

    def snapshot_state(self, context):
        pass

step = numbers.map(Kept())
"""
BROADCAST = """
MODEL = MapStateDescriptor("{name}", Types.STRING(), Types.LONG())

class Kept(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(MODEL).put("newest", value)

step = numbers.connect(numbers.broadcast(MODEL)).process(Kept())
"""
PROGRAM = """
from tidegate.common import Types
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    SinkFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_source(GeneratorSource(int, count=4)).uid("numbers")
{step}
step.uid("kept").print()
env.execute("lists")
"""
STEPS = {
    "list": (LIST, "get_list_state"),
    "union list": (LIST, "get_union_list_state"),
    "broadcast": (BROADCAST, ""),
}

Command = Callable[..., int]


@pytest.fixture
def do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Writes the program with this step and hands it to a command."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    def command(name: str, step: str, *options: str, target: str = "inline") -> int:
        (tmp_path / "job.py").write_text(PROGRAM.format(step=step))
        settings = [f"execution.target={target}", "pipeline.progress=off", "parallelism.default=2"]
        given = [word for each in settings for word in ("-D", each)]
        return main([name, *given, *options, "job.py"])

    return command


@pytest.mark.parametrize("target", ["inline", "embedded"])
@pytest.mark.parametrize(("text", "method"), STEPS.values(), ids=STEPS)
def test_a_state_that_is_renamed_is_refused_until_it_is_given_up(
    do: Command, capfd: pytest.CaptureFixture[str], text: str, method: str, target: str
) -> None:
    before, after = (text.format(method=method, name=name, more="") for name in ("seen", "noticed"))
    assert do("run", before, target=target) == 0
    capfd.readouterr()

    assert do("plan", after, "--json", "-s", "1", target=target) == 4
    (obstacle,) = json.loads(capfd.readouterr().out)["obstacles"]
    assert do("run", after, "-s", "1", target=target) == 2
    assert obstacle in capfd.readouterr().err
    assert "holds state 'seen', which its function does not declare" in obstacle
    assert "declares 'noticed'" in obstacle
    assert do("run", before, "-s", "1", target=target) == 0
    assert do("run", after, "-s", "1", "--allow-non-restored-state", target=target) == 0


SINK = """
class Kept(SinkFunction):
    def open(self, context):
        self.seen = context.get_state(ValueStateDescriptor("{name}", Types.LONG(), 0))

    def invoke(self, value, context):
        self.seen.update(self.seen.value() + 1)

numbers.key_by(lambda number: number % 2, Types.LONG()).add_sink(Kept()).uid("sink")
step = numbers
"""


def test_state_of_a_sink_that_is_renamed_is_refused_by_the_start(
    do: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    assert do("run", SINK.format(name="seen")) == 0
    capfd.readouterr()

    assert do("run", SINK.format(name="noticed"), "-s", "1") == 2
    assert "operator 'sink': its checkpoint holds state 'seen', which its" in capfd.readouterr().err
    assert do("run", SINK.format(name="noticed"), "-s", "1", "--allow-non-restored-state") == 0


def test_a_list_beside_one_that_stays_is_new_and_one_of_another_kind_is_not_meant(do: Command) -> None:
    before = LIST.format(method="get_list_state", name="seen", more="")
    more = 'store.get_list_state(ListStateDescriptor("more"))'
    assert do("run", before) == 0

    assert do("plan", LIST.format(method="get_list_state", name="seen", more=more), "-s", "1") == 0
    assert do("plan", LIST.format(method="get_union_list_state", name="all", more=""), "-s", "1") == 0
