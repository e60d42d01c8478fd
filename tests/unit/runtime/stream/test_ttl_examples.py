"""The examples of state that expires, in jobs whose functions move the clock, on each backend."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.runtime.stream import stepping
from tests.unit.runtime.stream.written import Halting
from tidegate.common import Time
from tidegate.connectors.base import RangeSplit
from tidegate.connectors.files import FileSink
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.state import StateTtlConfig, ValueStateDescriptor
from tidegate.errors import StateFormatError
from tidegate.runtime.checkpoint.savepoint import open_snapshot
from tidegate.state_reader import StateReader
from tidegate.types import Types

Step = tuple[str, str, int]
"""What is done, for which key, and how many milliseconds later than the step before."""

Run = Callable[..., list[Any]]


class Steps(KeyedProcessFunction):
    """Writes 7, reads, or lets a record pass without looking at state; `life` says how state of a second lives."""

    def __init__(self, **life: tuple[Any, ...]) -> None:
        self.life = life

    def open(self, runtime_context: Any) -> None:
        held = ValueStateDescriptor("held", Types.LONG())
        if self.life:
            builder: Any = StateTtlConfig.new_builder(Time.seconds(1))
            for name, arguments in self.life.items():
                builder = getattr(builder, name)(*arguments)
            held.enable_time_to_live(builder.build())
        self.held = runtime_context.get_state(held)

    def process_element(self, value: Step, ctx: Any) -> Iterator[Any]:
        does, _, wait_ms = value
        stepping.CLOCK.step(wait_ms)
        if does == "write":
            self.held.update(7)
        elif does == "read":
            yield self.held.value()


@pytest.fixture(params=["heap", "filesystem", "rocksdb"])
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs steps in a job of this process, after a checkpoint if one is named; returns what was read, in order."""
    monkeypatch.setattr("tidegate.runtime.launch.SYSTEM_CLOCK", stepping.CLOCK)
    count = 0

    def one(
        steps: Sequence[Step], function: Steps, after: Path | None = None, halt: int | None = None
    ) -> list[Any]:
        nonlocal count
        count += 1
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": "inline",
                "pipeline.progress": "off",
                "parallelism.default": 1,
                "restart-strategy.type": "none",
                "state.backend.type": request.param,
                "state.checkpoints.dir": str(tmp_path / str(count)),
                "state.checkpoints.num-retained": 100,
                "execution.savepoint.ignore-unclaimed-state": True,
                **({"execution.savepoint.path": str(after)} if after is not None else {}),
                **({"execution.checkpointing.interval": "20 ms"} if halt is not None else {}),
            }
        )
        step: Any = lambda number: steps[number]  # noqa: E731
        source = Halting(step, len(steps), halt=-2 if halt is None else halt)
        records = env.from_source(source).uid(f"in {count}").key_by(lambda step: step[1])
        out = tmp_path / str(count) / "out"
        records.process(function).uid("steps").sink_to(FileSink(str(out))).uid(f"out {count}")
        env.execute(f"run {count}")
        parts = sorted(out.glob("part-*"))
        return [json.loads(line) for part in parts for line in part.read_text().splitlines()]

    return one


def checkpoints(directory: Path, run: int = 1) -> list[Path]:
    """Of a run, the oldest first."""
    found = (directory / str(run)).glob("*/chk-*")
    return sorted(found, key=lambda path: int(path.name.removeprefix("chk-")))


def stored(checkpoint: Path) -> int:
    with StateReader(checkpoint) as reader:
        return len(reader.table("steps", "held"))


WRITTEN = ("write", "a", 0)


@pytest.mark.spec("002/AX-35")
@pytest.mark.parametrize(
    ("life", "waits_ms", "found"),
    [
        ("update_ttl_on_create_and_write", (900, 600), [7, None]),
        ("update_ttl_on_read_and_write", (900, 600), [7, 7]),
        ("return_expired_if_not_cleaned_up", (1_500, 0), [7, None]),
    ],
)
def test_a_read_prolongs_a_life_or_does_not_and_what_expired_is_read_once_where_that_is_allowed(
    run: Run, life: str, waits_ms: tuple[int, ...], found: list[int | None]
) -> None:
    how = {life: (), "disable_cleanup_in_background": ()}

    assert run([WRITTEN, *(("read", "a", wait) for wait in waits_ms)], Steps(**how)) == found


@pytest.mark.spec("004/AX-026")
@pytest.mark.parametrize(
    ("updates", "shows", "found"),
    [
        ("update_ttl_on_create_and_write", "never_return_expired", [7, None, None]),
        ("update_ttl_on_create_and_write", "return_expired_if_not_cleaned_up", [7, 7, None]),
        ("update_ttl_on_read_and_write", "never_return_expired", [7, 7, None]),
        ("update_ttl_on_read_and_write", "return_expired_if_not_cleaned_up", [7, 7, 7]),
    ],
)
def test_what_prolongs_a_life_and_what_is_shown_combine(
    run: Run, updates: str, shows: str, found: list[int | None]
) -> None:
    how: dict[str, Any] = {updates: (), shows: (), "disable_cleanup_in_background": ()}

    assert run([WRITTEN, *(("read", "a", wait) for wait in (900, 600, 1_500))], Steps(**how)) == found


@pytest.mark.spec("002/AX-36")
@pytest.mark.parametrize("before", [True, False], ids=["switched off", "switched on"])
def test_a_job_is_not_restored_whose_time_to_live_was_switched(
    run: Run, tmp_path: Path, before: bool
) -> None:
    living = {"never_return_expired": ()}
    run([WRITTEN], Steps(**living) if before else Steps())

    with pytest.raises(
        StateFormatError,
        match=r"state 'held' was stored with another type; stored as .*, the program declares ",
    ):
        run([("read", "a", 0)], Steps() if before else Steps(**living), checkpoints(tmp_path)[-1])


@pytest.mark.spec("002/AX-37")
def test_a_full_snapshot_has_two_of_five_entries_where_three_expired_and_the_job_keeps_five(
    run: Run, tmp_path: Path
) -> None:
    life: dict[str, Any] = {
        "cleanup_full_snapshot": (),
        "disable_cleanup_in_background": (),
        "return_expired_if_not_cleaned_up": (),
    }
    writes = [("write", key, 1_000 * (key == "d")) for key in "abcde"]
    reads = [("read", key, 0) for key in "abcde"]

    assert run([*writes, *reads], Steps(**life), halt=5) == [7] * 5
    held = next(path for path in checkpoints(tmp_path) if offsets(path) == [5])
    assert stored(held) == 2
    assert run(reads, Steps(**life), held) == [None, None, None, 7, 7]


def offsets(checkpoint: Path) -> list[int]:
    operators = open_snapshot(checkpoint).manifest.operators
    return [
        msgspec.msgpack.decode(split, type=RangeSplit).next for each in operators for split in each.splits
    ]


@pytest.mark.spec("002/AX-38")
@pytest.mark.parametrize(
    ("incrementally", "does", "left"),
    [
        ((5, False), "read", [12, 7, 2, 0]),
        ((5, False), "pass", [12, 12, 12, 12]),
        ((10, True), "pass", [12, 2, 0]),
    ],
    ids=["five an access", "five an access, none a record", "ten a record"],
)
def test_each_access_or_record_removes_some_of_twelve_expired_entries(
    run: Run, tmp_path: Path, incrementally: tuple[int, bool], does: str, left: list[int]
) -> None:
    life = {"return_expired_if_not_cleaned_up": (), "cleanup_incrementally": incrementally}
    run([("write", key, 0) for key in "abcdefghijkl"], Steps(**life))
    twelve = checkpoints(tmp_path)[-1]
    stepping.CLOCK.step(1_000)

    for again, entries in enumerate(left):
        run([(does, "of another key", 0)] * again, Steps(**life), twelve)
        assert stored(checkpoints(tmp_path, 2 + again)[-1]) == entries
