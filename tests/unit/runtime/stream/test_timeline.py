"""The timeline of real jobs: at every checkpoint state is what the input read by then makes of it."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.keyed.journal import TimersDue
from tidegate.backends.storage import LocalStorage
from tidegate.backends.timeline import key_of, value_of
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state
from tidegate.elements import MAX_WATERMARK, RecordOrigin
from tidegate.errors import ConfigError
from tidegate.runtime.checkpoint.timeline import Difference, Selection, Timeline
from tidegate.runtime.checkpoint.verify import verify

RECORDS = 1_000
KEYS = 7


class Count(KeyedProcessFunction):
    seen = state.Value(int, default=0)

    def process_element(self, value: int, ctx: Any) -> None:
        self.seen.update(self.seen.value() + 1)


def counted(found: list[Difference]) -> dict[int, int]:
    return {
        key_of(each.change.key): value_of(each.change.state, each.change.after)
        for each in found
        if each.change.after is not None
    }


def read_by_each(timeline: Timeline) -> list[int]:
    """How many records each checkpoint has seen; a source that is at its end has no split any more, nor at first."""
    read: list[int] = []
    for moment in timeline.moments():
        positions = timeline.positions(moment.checkpoint, moment.checkpoint)
        begun = bool(read) and read[-1] > 0
        done = RECORDS if begun else 0
        read.append(sum(each.after["next"] for each in positions if each.after) if positions else done)
    return read


@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
def test_state_at_every_checkpoint_is_what_was_read_by_then(
    anywhere: StreamExecutionEnvironment, backend: str, tmp_path: Path
) -> None:
    anywhere.configure(
        {
            "state.backend.type": backend,
            "state.checkpoints.dir": str(tmp_path),
            "execution.checkpointing.interval": "50 ms",
            "state.checkpoints.num-retained": 100,
        }
    )
    source = GeneratorSource(int, RECORDS, rate_per_second=2_500)
    numbers = anywhere.from_source(source).set_parallelism(1).key_by(lambda number: number % KEYS)
    numbers.process(Count()).uid("counts")
    anywhere.execute("counting")

    with Timeline(LocalStorage(tmp_path), "counting") as timeline:
        moments = timeline.moments()
        assert len(moments) > 1
        expected = [Counter(number % KEYS for number in range(read)) for read in read_by_each(timeline)]
        assert [counted(list(timeline.held(moment.checkpoint))) for moment in moments] == expected
        assert [each for m in moments for each in verify(timeline, m.checkpoint, deep=True)] == []
        told = [counted([each])[3] for _, each in timeline.history(Selection(key=3))]
        assert told == sorted({counts[3] for counts in expected} - {0})


@dataclass
class FailOnce:
    """Fails at a record, the first time that it comes by."""

    at: int
    witness: Path

    def __call__(self, number: int) -> int:
        if number == self.at and not self.witness.exists():
            self.witness.touch()
            raise ValueError("on purpose")
        return number


def told(root: Path, key: int) -> list[tuple[int, int]]:
    """Every change of a key's count, with the position of the record that made it."""
    with Timeline(LocalStorage(root), "counting") as timeline:
        found = [each for _, each in timeline.history(Selection(key=key))]
    causes = [each.cause for each in found]
    positions = [cause.position for cause in causes if isinstance(cause, RecordOrigin)]
    assert {cause.source for cause in causes if isinstance(cause, RecordOrigin)} == {"numbers"}
    return list(zip((counted([each])[key] for each in found), positions, strict=True))


def traced(env: StreamExecutionEnvironment, root: Path, **settings: Any) -> Any:
    """Numbers from a source, at least two checkpoints, and a journal."""
    env.configure(
        {
            "state.log.granularity": "event",
            "state.checkpoints.dir": str(root),
            "execution.checkpointing.interval": "50 ms",
            "state.checkpoints.num-retained": 100,
            **settings,
        }
    )
    return env.from_source(GeneratorSource(int, 400, rate_per_second=2_000)).uid("numbers").set_parallelism(1)


@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
def test_every_change_is_told_with_the_record_that_made_it(
    anywhere: StreamExecutionEnvironment, backend: str, tmp_path: Path
) -> None:
    numbers = traced(anywhere, tmp_path, **{"state.backend.type": backend})
    doubled = numbers.flat_map(lambda number: [number] * (number % 3)).rebalance().map(lambda number: number)
    doubled.key_by(lambda number: number % KEYS).process(Count()).uid("counts")
    anywhere.execute("counting")

    made = sorted(number for number in range(400) if number % KEYS == 3 for _ in range(number % 3))
    counts, positions = zip(*told(tmp_path, 3), strict=True)
    assert counts == tuple(range(1, len(made) + 1))
    assert sorted(positions) == made


def test_only_named_operators_tell_every_change_and_the_others_what_differs(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    numbers = traced(anywhere, tmp_path, **{"state.log.operators": "counts"})
    by_key = numbers.key_by(lambda number: number % KEYS)
    by_key.process(Count()).uid("counts")
    by_key.process(Count()).uid("others")
    anywhere.execute("counting")

    with Timeline(LocalStorage(tmp_path), "counting") as timeline:
        found = list(timeline.history(Selection(key=3)))
        handles = [
            handle
            for moment in timeline.moments()
            for each in timeline.manifest(moment.checkpoint).operators
            if each.uid == "others"
            for handle in each.keyed
        ]
        assert len({moment.checkpoint for moment, _ in found}) > 1
    made = [number for number in range(400) if number % KEYS == 3]
    causes = [each.cause for _, each in found if each.operator == "counts"]
    assert [(cause.source, cause.position) for cause in causes if isinstance(cause, RecordOrigin)] == [
        ("numbers", number) for number in made
    ]
    assert len(causes) == len(made)
    others = [(moment.checkpoint, each) for moment, each in found if each.operator == "others"]
    assert len({checkpoint for checkpoint, _ in others}) == len(others) < len(made)
    assert {each.cause for _, each in others} == {None}
    assert counted([others[-1][1]]) == {3: len(made)}
    assert {handle.journal for handle in handles} == {None}


@pytest.mark.parametrize("way", ["broadcast", "global_", "shuffle", "rescale", "forward", "partition_custom"])
def test_origins_pass_every_exchange(anywhere: StreamExecutionEnvironment, way: str, tmp_path: Path) -> None:
    numbers = traced(anywhere, tmp_path)
    arguments = (
        (lambda key, targets: key % targets, lambda number: number) if way == "partition_custom" else ()
    )
    behind = getattr(numbers, way)(*arguments).map(lambda number: number)
    behind = behind.set_parallelism(1) if way == "forward" else behind
    behind.key_by(lambda number: 3).process(Count()).uid("counts")
    anywhere.execute("counting")

    copies = anywhere.get_parallelism() if way == "broadcast" else 1
    assert sorted(position for _, position in told(tmp_path, 3)) == sorted([*range(400)] * copies)


def test_after_a_failure_no_change_is_told_twice(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    restarts = {"restart-strategy.fixed-delay.attempts": 3, "restart-strategy.fixed-delay.delay": "1 ms"}
    numbers = traced(anywhere, tmp_path / "state", **restarts)
    checked = (
        numbers.key_by(lambda number: 3).map(FailOnce(250, tmp_path / "failed")).key_by(lambda number: 3)
    )
    checked.process(Count()).uid("counts")
    anywhere.execute("counting")

    assert (tmp_path / "failed").exists()
    assert told(tmp_path / "state", 3) == [(number + 1, number) for number in range(400)]


class LaterCount(Count):
    def process_element(self, value: int, ctx: Any) -> None:
        if value == 0:
            ctx.timer_service().register_event_time_timer(10)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        self.seen.update(timestamp)


def test_what_timers_change_is_told_by_the_time_they_were_due(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    traced(anywhere, tmp_path).key_by(lambda number: 3).process(LaterCount()).uid("counts")
    anywhere.execute("counting")

    with Timeline(LocalStorage(tmp_path), "counting") as timeline:
        found = [(each.change.state.name, each.cause) for _, each in timeline.history(Selection(key=3))]
    assert found == [
        ("event", RecordOrigin("numbers", "0/1", 0)),
        ("seen", TimersDue("event", MAX_WATERMARK)),
        ("event", TimersDue("event", MAX_WATERMARK)),
    ]


def test_a_difference_names_the_record_that_made_the_newest_change(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    traced(anywhere, tmp_path).key_by(lambda number: 3).process(Count()).uid("counts")
    anywhere.execute("counting")

    with Timeline(LocalStorage(tmp_path), "counting") as timeline:
        first, *_, last = [moment.checkpoint for moment in timeline.moments()]
        (found,) = timeline.differences(first, last)
        (backwards,) = timeline.differences(last, first)
    assert found.cause == RecordOrigin("numbers", "0/1", 399)
    assert backwards.cause is None


def test_a_job_that_runs_is_looked_at_and_goes_on(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    traced(anywhere, tmp_path).key_by(lambda number: 3).process(Count()).uid("counts")
    ended = anywhere.execute_async("counting").get_job_execution_result()
    looked: set[str] = set()
    while not ended.done():
        with contextlib.suppress(ConfigError), Timeline(LocalStorage(tmp_path), "counting") as timeline:
            looked.add(timeline.record.status)
            assert len(list(timeline.held(None))) <= 1

    ended.result()
    assert "running" in looked
    assert told(tmp_path, 3)[-1] == (400, 399)
