"""Functions that write their state as bytes of their own: it is in every kind of snapshot and goes where it belongs."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.stream.test_savepoints import FORMS, lines
from tests.waiting import until
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    CheckpointedFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
)
from tidegate.errors import ConfigError, TidegateError
from tidegate.runtime.checkpoint.savepoint import open_snapshot
from tidegate.runtime.checkpoint.state_writer import StateWriter
from tidegate.runtime.client import JobClient
from tidegate.runtime.options import SavepointFormat
from tidegate.testing.harness import Harness, HarnessSnapshot

KEYS = 11


class Tallies(KeyedProcessFunction, CheckpointedFunction):
    """Counts by key in a dictionary of its own, pickled key group by key group."""

    def initialize_state(self, context: Any) -> None:
        self.counts: dict[int, int] = {}
        for _, stream in context.get_raw_keyed_state_inputs():
            self.counts.update(pickle.load(stream))

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        key = ctx.get_current_key()
        self.counts[key] = self.counts.get(key, 0) + 1
        yield f"{key} {self.counts[key]}"

    def snapshot_state(self, context: Any) -> None:
        output = context.get_raw_keyed_operator_state_output()
        by_group: dict[int, dict[int, int]] = {}
        for key, count in self.counts.items():
            by_group.setdefault(output.key_group_of(key), {})[key] = count
        assert by_group.keys() <= set(output.get_key_group_list())
        for group, counts in by_group.items():
            output.start_new_key_group(group)
            pickle.dump(counts, output)


class Shares(FlatMapFunction, CheckpointedFunction):
    """Keeps what it saw, each record a partition, and tells a question what it was restored with."""

    def initialize_state(self, context: Any) -> None:
        self.restored = [stream.read() for stream in context.get_raw_operator_state_inputs()]
        self.seen = list(self.restored)

    def flat_map(self, value: bytes) -> Iterable[list[bytes]]:
        if value == b"?":
            yield self.restored
        else:
            self.seen.append(value)

    def snapshot_state(self, context: Any) -> None:
        output = context.get_raw_operator_state_output()
        for each in self.seen:
            output.start_new_partition()
            output.write(each[:1])
            output.write(each[1:])


def start(settings: dict[str, Any], root: Path, output: Path, **more: Any) -> JobClient:
    env = StreamExecutionEnvironment.get_execution_environment(
        {**settings, "state.checkpoints.dir": str(root), **more}
    )
    numbers = env.from_source(GeneratorSource(int, count=None, splits=2, rate_per_second=3_000)).uid(
        "numbers"
    )
    tallies = numbers.key_by(lambda number: number % KEYS).process(Tallies()).uid("tallies")
    tallies.sink_to(FileSink(str(output))).uid("files")
    return env.execute_async("tallies")


def gaps(output: Path) -> list[int]:
    """Keys whose counts are not 1, 2, 3, ... in all output."""
    counts: dict[int, list[int]] = {}
    for path in output.glob("part-*"):
        for line in path.read_text().splitlines():
            key, count = map(int, json.loads(line).split())
            counts.setdefault(key, []).append(count)
    assert len(counts) == KEYS
    return [key for key, seen in counts.items() if sorted(seen) != list(range(1, len(seen) + 1))]


@pytest.mark.spec("004/STA-006")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("threshold", [0, 1_000_000], ids=["in files", "inline"])
@pytest.mark.parametrize(
    ("target", "before", "after"), [("inline", 2, 3), ("embedded", 2, 3), ("embedded", 3, 1)]
)
def test_bytes_of_key_groups_go_where_their_keys_go(
    tmp_path: Path, target: str, before: int, after: int, form: SavepointFormat, threshold: int
) -> None:
    settings = {
        "execution.target": target,
        "pipeline.progress": "off",
        "execution.checkpointing.interval": "50 ms",
        "restart-strategy.fixed-delay.attempts": 0,
        "state.backend.fs.memory-threshold": threshold,
    }
    output = tmp_path / "out"
    client = start(settings, tmp_path / "one", output, **{"parallelism.default": before})
    until(lambda: lines(output), job=client)
    place = client.stop_with_savepoint(False, str(tmp_path / "saved"), format_type=form).result(timeout=60)

    size = len(lines(output))
    second = {"parallelism.default": after, "execution.savepoint.path": place, "execution.take-over": True}
    client = start(settings, tmp_path / "two", output, **second)
    until(lambda: len(lines(output)) > size, job=client)
    client.stop().result(timeout=60)

    assert gaps(output) == []


def tallied(elements: Iterable[int], before: HarnessSnapshot | None, parallelism: int, backend: str) -> Any:
    build = lambda stream: stream.key_by(lambda number: number % KEYS).process(Tallies())  # noqa: E731
    with Harness(build, parallelism=parallelism, backend=backend, restored=before) as harness:
        for element in elements:
            harness.push(element)
        return harness.take(), harness.snapshot()


@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
def test_it_follows_its_keys_on_every_backend(backend: str) -> None:
    last: dict[str, str] = {}
    taken = None
    for parallelism in (1, 4, 3):
        told, taken = tallied(range(33), taken, parallelism, backend)
        last.update(line.split() for line in told)
    assert last == {str(key): "9" for key in range(KEYS)}


@pytest.mark.parametrize(
    ("parallelism", "shares"),
    [
        (1, [[b"one", b"two", b"six"]]),
        (2, [[b"one", b"two"], [b"six"]]),
        (4, [[b"one"], [b"two"], [b"six"], []]),
    ],
)
def test_partitions_are_dealt_in_equal_shares(parallelism: int, shares: list[list[bytes]]) -> None:
    with Harness(lambda stream: stream.flat_map(Shares())) as harness:
        for element in (b"one", b"two", b"six"):
            harness.push(element)
        taken = harness.snapshot()
    build = lambda stream: stream.broadcast().flat_map(Shares())  # noqa: E731
    with Harness(build, parallelism=parallelism, restored=taken) as harness:
        harness.push(b"?")
        assert sorted(harness.take()) == sorted(shares)


class Forgetful(FlatMapFunction, CheckpointedFunction):
    """Reads nothing and writes nothing."""

    def initialize_state(self, context: Any) -> None: ...

    def flat_map(self, value: bytes) -> Iterable[bytes]:
        yield value

    def snapshot_state(self, context: Any) -> None: ...


class Ordinary(FlatMapFunction):
    def flat_map(self, value: bytes) -> Iterable[bytes]:
        yield value


@pytest.mark.parametrize(("function", "found"), [(Forgetful, []), (Ordinary, [b"one"])])
def test_what_is_not_written_again_is_gone_but_a_function_without_a_say_carries_it_on(
    function: type[FlatMapFunction], found: list[bytes]
) -> None:
    with Harness(lambda stream: stream.flat_map(Shares()).uid("it")) as harness:
        harness.push(b"one")
        taken = harness.snapshot()
    with Harness(lambda stream: stream.flat_map(function()).uid("it"), restored=taken) as harness:
        taken = harness.snapshot()
    with Harness(lambda stream: stream.flat_map(Shares()).uid("it"), restored=taken) as harness:
        harness.push(b"?")
        assert harness.take() == [found]


class Misplaced(KeyedProcessFunction, CheckpointedFunction):
    """Writes where it cannot."""

    def __init__(self, group: int | None, times: int = 1) -> None:
        self.group = group
        self.times = times

    def initialize_state(self, context: Any) -> None: ...

    def process_element(self, value: Any, ctx: Any) -> None: ...

    def snapshot_state(self, context: Any) -> None:
        output = context.get_raw_keyed_operator_state_output()
        for _ in range(self.times if self.group is not None else 0):
            output.start_new_key_group(self.group)
        output.write(b"x")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            Misplaced(128),
            "key group 128 cannot be written; got a group of another subtask; expected each of 0 to 127",
        ),
        (Misplaced(5, 2), "key group 5 cannot be written; got a group already written"),
        (Misplaced(None), "written outside a key group; call start_new_key_group"),
    ],
    ids=["of another subtask", "twice", "none"],
)
def test_bytes_of_no_key_group_of_the_subtask_are_refused(function: Misplaced, message: str) -> None:
    build = lambda stream: stream.key_by(lambda n: n).process(function)  # noqa: E731
    with Harness(build) as harness, pytest.raises(TidegateError, match=message):
        harness.snapshot()


class Keyless(Forgetful):
    def snapshot_state(self, context: Any) -> None:
        context.get_raw_keyed_operator_state_output()


def test_without_a_key_there_are_no_key_groups() -> None:
    message = "raw state of key groups needs a key; got an input without keys"
    with (
        Harness(lambda stream: stream.flat_map(Keyless())) as harness,
        pytest.raises(TidegateError, match=message),
    ):
        harness.snapshot()


def test_key_groups_that_nobody_knows_the_keys_of_keep_their_number(tmp_path: Path) -> None:
    settings = {"execution.target": "inline", "pipeline.progress": "off", "parallelism.default": 2}
    client = start(
        settings, tmp_path / "one", tmp_path / "out", **{"execution.checkpointing.interval": "50 ms"}
    )
    until(lambda: lines(tmp_path / "out"), job=client)
    place = client.stop_with_savepoint(False, str(tmp_path / "saved")).result(timeout=60)
    (tallies,) = [each for each in open_snapshot(place).manifest.operators if each.uid == "tallies"]

    assert tallies.by_key_group
    assert Counter(len(held.items) for lists in tallies.lists for held in lists).total() == 2
    more = {"execution.savepoint.path": place, "pipeline.max-parallelism": 1024}
    with pytest.raises(ConfigError, match="max parallelism is 1024 but its state was written with 128"):
        start(settings, tmp_path / "two", tmp_path / "out", **more).get_job_execution_result().result(
            timeout=60
        )
    StateWriter(place).write(tmp_path / "copy")
    assert open_snapshot(tmp_path / "copy").manifest.operators == open_snapshot(place).manifest.operators
