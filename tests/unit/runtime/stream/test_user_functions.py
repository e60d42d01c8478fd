"""State and news of checkpoints for every kind of user function, through a declined checkpoint and a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.stream.kinds import KINDS, NUMBERS, SOURCES, Gated, Kept, Listed, calls, last_count
from tidegate.connectors.functions import SourceFunction
from tidegate.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    DataStream,
    MapFunction,
    StreamExecutionEnvironment,
)
from tidegate.errors import UnavailableError

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")

INTERFACES = {"CheckpointedFunction": Kept, "ListCheckpointed": Listed}


@pytest.fixture
def env(anywhere: StreamExecutionEnvironment) -> StreamExecutionEnvironment:
    anywhere.configure(
        {
            "parallelism.default": 1,
            "execution.checkpointing.interval": "20 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 1,
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    )
    return anywhere


class Input(Listed, Gated, SourceFunction):
    """What all kinds but sources read."""


class Declining(MapFunction, CheckpointedFunction):
    """Gives up the first checkpoint behind a record, when all functions are open."""

    def initialize_state(self, context: Any) -> None:
        self.declined = context.is_restored()
        self.seen = False

    def map(self, value: Any) -> Any:
        self.seen = True
        return value

    def snapshot_state(self, context: Any) -> None:
        if self.seen and not self.declined:
            self.declined = True
            raise UnavailableError("the first checkpoint is given up")


class Failing(MapFunction):
    """Fails once, behind the gate."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def map(self, value: int) -> int:
        failed = Path(self.directory) / "failed"
        if value == NUMBERS - 5 and not failed.exists():
            failed.touch()
            raise OSError("once")
        return value


class Watching(MapFunction, CheckpointListener):
    """Opens the gate when two checkpoints are complete since half of the numbers came: the second holds them."""

    def __init__(self, gate: str) -> None:
        self.gate = gate
        self.half = False
        self.completed = 0

    def map(self, value: int) -> int:
        self.half = self.half or value == NUMBERS // 2 - 1
        return value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.completed += self.half
        if self.completed == 2:
            Path(self.gate).touch()


def made(cls: type[Any], interface: str, name: str, directory: Path) -> Any:
    """A function of a kind with one of the interfaces."""
    function = type(cls.__name__, (INTERFACES[interface], cls), {})()
    function.directory, function.name, function.gate = str(directory), name, str(directory / "gate")
    return function


def run(env: StreamExecutionEnvironment, directory: Path, source: Any, kinds: dict[str, Any]) -> None:
    """Let functions of all these kinds read a source, through a checkpoint that is given up and a failure."""
    stream = env.add_source(source).map(Watching(str(directory / "gate"))).map(Declining())
    for name, (function, build) in kinds.items():
        ended = build(stream, function)
        if isinstance(ended, DataStream):
            ended.add_sink(_nowhere).name(f"end of {name}")
    stream.map(Failing(str(directory))).add_sink(_nowhere)
    env.execute()
    assert (directory / "failed").exists()


def _nowhere(value: Any) -> None:
    pass


def check(directory: str, name: str, expected: int, *, at_least: bool = False) -> None:
    """All calls of a function are in its state, and it knows what became of checkpoints."""
    count = last_count(directory, name)
    assert count >= expected if at_least else count == expected
    assert [number for number in calls(directory, name, "restored") if number]
    assert calls(directory, name, "aborted")
    completed = calls(directory, name, "completed")
    assert len(set(completed)) >= 2
    assert len(calls(directory, name, "saved")) >= 3


@pytest.mark.parametrize("unaligned", [False, True], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("interface", INTERFACES)
def test_functions_of_all_kinds_keep_state_and_hear_of_checkpoints(
    env: StreamExecutionEnvironment, tmp_path: Path, interface: str, unaligned: bool
) -> None:
    env.configure({"execution.checkpointing.unaligned.enabled": unaligned})
    kinds = {name: (made(cls, interface, name, tmp_path), build) for name, (cls, build, _) in KINDS.items()}
    source = Input()
    source.directory, source.name, source.gate = str(tmp_path), "input", str(tmp_path / "gate")
    run(env, tmp_path, source, kinds)

    for name, (_, _, expected) in KINDS.items():
        check(str(tmp_path), name, expected, at_least=name == "async")


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("kind", SOURCES)
def test_source_functions_keep_state_and_hear_of_checkpoints(
    env: StreamExecutionEnvironment, tmp_path: Path, interface: str, kind: str
) -> None:
    run(env, tmp_path, made(SOURCES[kind], interface, kind, tmp_path), {})

    check(str(tmp_path), kind, NUMBERS)
