"""Examples of state that is restored at another parallelism or does not fit, with their own numbers, on each executor."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.stream.buffering import BufferingSink
from tests.waiting import until
from tidegate.connectors.files import FileSink
from tidegate.connectors.functions import ParallelSourceFunction
from tidegate.datastream import (
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
    state,
)
from tidegate.errors import StateFormatError


@pytest.fixture(params=["heap", "filesystem", "rocksdb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(anywhere: StreamExecutionEnvironment, tmp_path: Path) -> Callable[..., list[Any]]:
    """Runs a step over a source of its own to the end; each run goes on from the state of the one before."""
    places: list[Path] = []

    def one(records: list[Any], step: Callable[[DataStream], DataStream], **settings: Any) -> list[Any]:
        root = tmp_path / str(len(places))
        more = {"execution.savepoint.path": str(places[-1])} if places else {}
        anywhere.configure(
            {
                **settings,
                **more,
                "state.checkpoints.dir": str(root),
                "execution.savepoint.ignore-unclaimed-state": bool(places),
            }
        )
        source = anywhere.from_collection(records).set_parallelism(1).uid(f"in {len(places)}")
        step(source).uid("step").sink_to(FileSink(str(root / "out"))).uid(f"out {len(places)}")
        anywhere.execute(f"run {len(places)}")
        places.append(max(root.glob("*/chk-*"), key=lambda path: int(path.name.removeprefix("chk-"))))
        return written(root / "out")

    return one


@pytest.mark.spec("002/AX-40")
@pytest.mark.parametrize(
    ("union", "parallelism", "shares"),
    [
        (False, 2, [["ele1"], ["ele2"]]),
        (False, 3, [[], ["ele1"], ["ele2"]]),
        (True, 2, [["ele1", "ele2"], ["ele1", "ele2"]]),
    ],
    ids=["even split to 2", "even split to 3", "union"],
)
def test_a_list_of_one_subtask_is_split_evenly_or_given_whole(
    run: Callable[..., list[Any]], union: bool, parallelism: int, shares: list[list[str]]
) -> None:
    assert run(["ele1", "ele2"], lambda s: s.flat_map(BufferingSink(union=union)).set_parallelism(1)) == []

    found = run(
        ["?"], lambda s: s.broadcast().flat_map(BufferingSink(union=union)).set_parallelism(parallelism)
    )

    assert sorted(found) == shares


class Remember(KeyedProcessFunction):
    """Keeps what a key was last given; tells it, and where, when it is asked."""

    held = state.Value(int)

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        if value[1] < 0:
            yield [value[0], self.held.value(), self.subtask]
        else:
            self.held.update(value[1])


@pytest.mark.spec("002/AX-64")
def test_every_key_keeps_its_value_on_one_of_three_subtasks_instead_of_two(
    run: Callable[..., list[Any]], backend: str
) -> None:
    def keyed(parallelism: int) -> Callable[[DataStream], DataStream]:
        return lambda s: s.key_by(lambda pair: pair[0]).process(Remember()).set_parallelism(parallelism)

    keys = [f"key {number}" for number in range(60)]
    settings = {"state.backend.type": backend}
    assert run([(key, number) for number, key in enumerate(keys)], keyed(2), **settings) == []

    found = run([(key, -1) for key in keys * 2], keyed(3), **settings)

    assert sorted({(key, value) for key, value, _ in found}) == sorted((key, n) for n, key in enumerate(keys))
    assert len(set(map(tuple, found))) == len(keys)
    assert {subtask for _, _, subtask in found} == {0, 1, 2}


class Swell(MapFunction):
    """Keeps as many bytes as it is told to."""

    held = state.Value(bytes)

    def map(self, value: int) -> int:
        self.held.update(bytes(value))
        return value


@pytest.mark.spec("002/AX-60")
def test_state_above_five_megabytes_fails_its_checkpoint_in_memory(run: Callable[..., list[Any]]) -> None:
    swelling = lambda stream: stream.key_by(str).map(Swell())  # noqa: E731
    with pytest.raises(
        StateFormatError, match=r"state 'held' is too large .*; got \d+ bytes; expected at most 5242880"
    ):
        run([5 * 1024 * 1024], swelling, **{"state.backend.type": "heap"})
    assert run([5 * 1024 * 1024 - 1_000], swelling, **{"state.backend.type": "heap"}) == [
        5 * 1024 * 1024 - 1_000
    ]


class CounterSource(ParallelSourceFunction):
    """Counts as many steps on as its instance is to, then waits until it is told to end."""

    def __init__(self, *steps: int) -> None:
        self.steps = steps
        self.offset = 0

    def open(self, runtime_context: Any) -> None:
        self.told = threading.Event()
        self.subtask = runtime_context.get_index_of_this_subtask()

    def run(self, ctx: Any) -> None:
        for _ in range(self.steps[self.subtask]):
            with ctx.get_checkpoint_lock():
                ctx.collect(self.offset)
                self.offset += 1
        self.told.wait()

    def cancel(self) -> None:
        self.told.set()

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        return [self.offset]

    def restore_state(self, state: list[int]) -> None:
        for offset in state:
            self.offset = offset


@pytest.mark.spec("002/AX-42")
@pytest.mark.parametrize(
    ("before", "after", "found"),
    [((7,), (3,), [7, 8, 9]), ((7, 12), (3,), [12, 13, 14]), ((7,), (3, 3), [0, 1, 2, 7, 8, 9])],
    ids=["as before", "fewer instances", "more instances"],
)
def test_a_counter_goes_on_from_the_list_its_instance_is_given(
    anywhere: StreamExecutionEnvironment,
    tmp_path: Path,
    before: tuple[int, ...],
    after: tuple[int, ...],
    found: list[int],
) -> None:
    def counted(steps: tuple[int, ...], count: int, place: str | None = None) -> tuple[str, list[int]]:
        out = tmp_path / f"out of {steps} from {place is not None}"
        anywhere.configure(
            {
                "execution.checkpointing.interval": "30 ms",
                "state.checkpoints.dir": str(tmp_path / "state"),
                **({"execution.savepoint.path": place} if place else {}),
            }
        )
        numbers = anywhere.add_source(CounterSource(*steps)).set_parallelism(len(steps)).uid("counter")
        numbers.sink_to(FileSink(str(out))).uid(f"out {place is not None}")
        client = anywhere.execute_async(f"counted from {place is not None}")
        until(lambda: len(written(out)) >= count, job=client)
        return client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(timeout=60), written(
            out
        )

    place, first = counted(before, sum(before))
    assert sorted(first) == sorted(number for steps in before for number in range(steps))
    anywhere.configure({"execution.savepoint.ignore-unclaimed-state": True})
    assert sorted(counted(after, len(found), place)[1]) == found


def written(out: Path) -> list[Any]:
    return [json.loads(line) for part in sorted(out.glob("part-*")) for line in part.read_text().splitlines()]
