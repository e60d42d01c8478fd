"""How a step with two inputs meets barriers: a digit stream whose barrier comes first, and letters that are held up.

The digits 1, 2 and 3 are behind the digits' barrier, and 4 is read once that checkpoint is settled. At 4 the job fails
for the first time, so whatever the checkpoint does not know of 1, 2 and 3 is read again.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate.clock import Clock
from tidegate.common import Duration
from tidegate.connectors.base import ListEnumerator, RangeReader, RangeSplit
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import NotYet, Poll, Source
from tidegate.datastream import (
    AsyncDataStream,
    AsyncFunction,
    KeyedCoProcessFunction,
    ListStateDescriptor,
    MapFunction,
    StreamExecutionEnvironment,
)
from tidegate.errors import JobFailedError
from tidegate.ids import CheckpointId, SplitId

Env = StreamExecutionEnvironment
SETTINGS: dict[str, dict[str, Any]] = {
    "exactly once": {"execution.checkpointing.mode": "EXACTLY_ONCE"},
    "overtaking": {"execution.checkpointing.unaligned.enabled": True},
    "at least once": {"execution.checkpointing.mode": "AT_LEAST_ONCE"},
    "at most once": {"execution.checkpointing.mode": "NONE"},
}
DIGITS = "1234"
OPENS = {
    "exactly once": "polled",
    "overtaking": "settled",
    "at least once": "seen-3",
    "at most once": "seen-3",
}
"""The file that lets the letter b go on, and with it the letters' barrier."""


@dataclass(frozen=True)
class Scripted(Source[RangeSplit]):
    """Digits or letters, each read alone, and each when the script lets it; after the failure all at once."""

    directory: Path
    records: str
    waits: bool

    split_type = RangeSplit
    bounded = True

    def open_enumerator(self, context: Any, restored: bytes | None) -> Any:
        split = RangeSplit(SplitId(self.records), 0, len(self.records))
        return ListEnumerator(context, [split], RangeSplit, restored)

    def open_reader(self, context: Any) -> ScriptedReader:
        return ScriptedReader(self, context.clock)


class ScriptedReader(RangeReader):
    """1, 2, 3 and c come behind the first barrier that is behind b, 4 when its checkpoint is settled."""

    def __init__(self, script: Scripted, clock: Clock) -> None:
        super().__init__(lambda numbers: [script.records[number] for number in numbers])
        self.script, self.directory, self.clock = script, script.directory, clock
        self.newest = self.polled = 0

    def poll(self, limit: int) -> Poll:
        follows = self.script.waits and not (self.directory / "failed").exists()
        if not follows or not self._splits or self.ready(self.script.records[self._splits[0].next]):
            return super().poll(1)
        return NotYet(1)

    def ready(self, record: str) -> bool:
        barrier = self.directory / "barrier"
        if record in "123c":
            return barrier.exists() and self.newest >= int(barrier.read_text() or self.newest + 1)
        if record == "4":
            self.polled += 1
            if self.polled == 30:
                (self.directory / "polled").touch()
            return (self.directory / "settled").exists()
        return True

    def snapshot(self, checkpoint: CheckpointId) -> list[RangeSplit]:
        self.newest, barrier = checkpoint, self.directory / "barrier"
        if [self.script.records[split.next] for split in self._splits] == ["c"] and not barrier.exists():
            barrier.write_text(str(checkpoint))
        return super().snapshot(checkpoint)

    def settled(self, checkpoint: CheckpointId) -> None:
        barrier = self.directory / "barrier"
        if barrier.exists() and checkpoint >= int(barrier.read_text()):
            (self.directory / "settled").touch()


class Gate(AsyncFunction):
    """Holds the letter b up, and c until the job has failed, so that no later checkpoint is complete before."""

    def __init__(self, directory: Path, opens: str) -> None:
        self.directory, self.opens = directory, opens

    async def async_invoke(self, value: str) -> list[str]:
        opens = {"b": self.opens, "c": "failed"}.get(value)
        while opens is not None and not (self.directory / opens).exists():
            await asyncio.sleep(0.002)
        return [value]


class FailsOnce(MapFunction):
    """At the first 4, where it is read; without checkpoints once 3 has been seen."""

    def __init__(self, directory: Path, *, dies: bool, waits: bool) -> None:
        self.directory, self.dies, self.waits = directory, dies, waits

    def map(self, value: str) -> str:
        if value == "4" and not (self.directory / "failed").exists():
            while self.waits and not (self.directory / "seen-3").exists():
                threading.Event().wait(0.002)
            (self.directory / "failed").touch()
            if self.dies:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("at the first 4")
        return value


class Seen(KeyedCoProcessFunction):
    """Says of each record how often it has seen it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))

    def process_element1(self, value: str, ctx: Any) -> Iterator[str]:
        return self.process_element2(value, ctx)

    def process_element2(self, value: str, ctx: Any) -> Iterator[str]:
        with (self.directory / "trace").open("a") as trace:
            trace.write(value)
        (self.directory / f"seen-{value}").touch()
        self.seen.add(value)
        yield f"{value}{list(self.seen.get()).count(value)}"


def run(env: Env, directory: Path, mode: str, *, dies: bool = False) -> list[str]:
    """What becomes visible, sorted: each record with how often it was seen."""
    checkpoints = mode != "at most once"
    interval = {"execution.checkpointing.interval": "20 ms"} if checkpoints else {}
    restarts = {"restart-strategy.fixed-delay.attempts": 1, "restart-strategy.fixed-delay.delay": "1 ms"}
    env.configure({**SETTINGS[mode], **interval, **restarts})
    digits, letters = [
        env.from_source(Scripted(directory, records, checkpoints)).set_parallelism(1)
        for records in (DIGITS, "abc")
    ]
    held = AsyncDataStream.ordered_wait(
        letters.rebalance(), Gate(directory, OPENS[mode]), Duration.of_seconds(20), 1
    )
    read = digits.map(FailsOnce(directory, dies=dies, waits=not checkpoints)).set_parallelism(1)
    both = read.connect(held.set_parallelism(1)).key_by(lambda digit: 0, lambda letter: 0)
    both.process(Seen(directory)).sink_to(FileSink(str(directory / "out")))
    try:
        env.execute("barriers")
    except JobFailedError:
        assert mode == "at most once"
    return sorted(
        line for part in (directory / "out").glob("part-*") for line in part.read_text().splitlines()
    )


ONCE = ['"11"', '"21"', '"31"', '"41"', '"a1"', '"b1"', '"c1"']
TWICE = ['"11"', '"12"', '"21"', '"22"', '"31"', '"32"', '"41"', '"a1"', '"b1"', '"c1"']


@pytest.mark.spec("004/AX-021")
@pytest.mark.spec("003/EX-10")
@pytest.mark.spec("004/BAR-008", "004/BAR-009", "004/BAR-010", "004/BAR-012", "003/FT-15")
def test_aligned_what_is_behind_the_first_barrier_waits_for_the_second(anywhere: Env, tmp_path: Path) -> None:
    assert run(anywhere, tmp_path, "exactly once") == ONCE, "the snapshot knew nothing of 1, 2, 3"

    before, after = (tmp_path / "trace").read_text().split("b", 1)
    assert before == "a", "1, 2, 3 were there and waited"
    assert after.replace("c", "") == "123" + "1234", "they come before new input, and again after the failure"


def acknowledged(log: str, subtask: int) -> set[int]:
    """The checkpoints that a subtask of the task `held` has taken part in."""
    events = map(json.loads, log.splitlines())
    return {
        each["checkpoint"]
        for each in events
        if (each["what"], each.get("uid"), each.get("subtask")) == ("acked", "held", subtask)
    }


class HeldUp(MapFunction):
    """Lets the second of two subtasks stay behind a barrier until the event log says that the first has passed it."""

    def __init__(self, directory: Path) -> None:
        self.log, self.seen = directory / "events", directory / "seen-of-log"

    def open(self, runtime_context: Any) -> None:
        self.index = runtime_context.get_index_of_this_subtask()
        self.held = False

    def map(self, value: int) -> int:
        if self.index == 1 and not self.held:
            self.held = True
            while not acknowledged(log := self.log.read_text(), 0) - acknowledged(log, 1):
                threading.Event().wait(0.002)
            self.seen.write_text(log)
        return value


@pytest.mark.spec("003/EX-10")
@pytest.mark.processes
@pytest.mark.spec("004/BAR-015", "003/FT-13")
def test_a_checkpoint_is_complete_when_the_last_of_two_parallel_subtasks_has_its_barrier(
    tmp_path: Path,
) -> None:
    log = tmp_path / "events"
    env = Env.get_execution_environment(
        {
            "execution.target": "embedded",
            "pipeline.progress": "off",
            "pipeline.event-log": str(log),
            "execution.checkpointing.interval": "20 ms",
            "execution.checkpointing.timeout": "10 min",
        }
    )
    numbers = env.from_source(GeneratorSource(int, 2_000, rate_per_second=1_000.0)).set_parallelism(1)
    # The steps behind the exchange are one task, which is named after its first one.
    held = numbers.rebalance().map(HeldUp(tmp_path)).set_parallelism(2).uid("held").name("held")
    held.sink_to(FileSink(str(tmp_path / "out"))).set_parallelism(2)
    env.execute()

    behind = (tmp_path / "seen-of-log").read_text()
    (checkpoint,) = acknowledged(behind, 0) - acknowledged(behind, 1)
    decided = f'"what":"decided","text":"checkpoint {checkpoint}"'
    assert decided not in behind, "the second subtask does not have the barrier yet"
    whole = log.read_text().splitlines()
    (last,) = [at for at in range(len(whole)) if checkpoint in acknowledged(whole[at], 1)]
    (complete,) = [at for at in range(len(whole)) if decided in whole[at]]
    assert last < complete


@pytest.mark.spec("004/AX-022")
@pytest.mark.spec("003/EX-10")
@pytest.mark.spec("004/BAR-013", "004/BAR-014", "003/FT-17")
def test_without_alignment_what_is_behind_the_first_barrier_counts_twice(
    anywhere: Env, tmp_path: Path
) -> None:
    assert run(anywhere, tmp_path, "at least once") == TWICE

    assert (tmp_path / "trace").read_text().replace("a", "").replace("c", "") == "123" + "b" + "1234"


@pytest.mark.spec("004/BAR-016", "004/BKP-006")
def test_a_checkpoint_that_overtakes_is_settled_while_a_letter_is_held_up(
    anywhere: Env, tmp_path: Path
) -> None:
    assert run(anywhere, tmp_path, "overtaking") == ONCE
    assert (tmp_path / "settled").exists()


@pytest.mark.spec("001/EX-06")
@pytest.mark.parametrize("mode", ["at most once", "at least once", "exactly once"])
@pytest.mark.parametrize("target", [("embedded", 2)], ids=["embedded-2"])
@pytest.mark.spec("003/FT-01", "003/FT-02", "003/FT-03", "003/FT-04")
def test_after_a_kill_records_are_lost_or_repeated_or_neither(
    mode: str, target: tuple[str, int], tmp_path: Path
) -> None:
    env = Env.get_execution_environment(
        {"execution.target": target[0], "parallelism.default": target[1], "pipeline.progress": "off"}
    )

    found = run(env, tmp_path, mode, dies=True)

    assert (tmp_path / "failed").exists()
    assert found == {"at most once": [], "at least once": TWICE}.get(mode, ONCE)
    seen = (tmp_path / "trace").read_text()
    if mode == "at most once":
        assert set("123") <= set(seen)
        assert "4" not in seen, "the record in front of which the job was killed is lost"
        assert len(seen) == len(set(seen)), "none is seen again"
    else:
        assert set(seen) == set("1234abc")
        digits = "".join(each for each in seen if each in DIGITS)
        assert digits == "123" + "1234", "after the kill they are read again"
