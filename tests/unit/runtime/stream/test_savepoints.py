"""Savepoints of jobs that run, and jobs that go on from them: everything once, whatever the form."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment, state
from tidegate.errors import ConfigError, UnavailableError
from tidegate.runtime.checkpoint.savepoint import open_snapshot
from tidegate.runtime.client import JobClient
from tidegate.runtime.options import SavepointFormat
from tidegate.state_reader import StateReader

KEYS = 7
FORMS: tuple[SavepointFormat, ...] = ("canonical", "native")


class Totals(KeyedProcessFunction):
    """Counts the records of a key; at the end of time it tells once more how many there were."""

    count = state.Value(int, default=0)

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        self.count.update(self.count.value() + 1)
        ctx.timer_service().register_event_time_timer(2**50)
        yield f"{value} {self.count.value()}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield f"end {ctx.get_current_key()} {self.count.value()}"


@pytest.fixture(
    params=[("inline", 2), ("embedded", 2), ("embedded", 3)], ids=["inline", "embedded-2", "embedded-3"]
)
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    target, parallelism = request.param
    return {
        "execution.target": target,
        "parallelism.default": parallelism,
        "pipeline.progress": "off",
        "execution.checkpointing.interval": "50 ms",
        "restart-strategy.fixed-delay.attempts": 0,
        "state.backend.fs.memory-threshold": 64,
    }


def start(settings: dict[str, Any], root: Path, output: Path, **more: Any) -> JobClient:
    env = StreamExecutionEnvironment.get_execution_environment(
        {**settings, "state.checkpoints.dir": str(root), **more}
    )
    numbers = env.from_source(GeneratorSource(int, count=None, splits=2, rate_per_second=3_000)).uid(
        "numbers"
    )
    totals = numbers.key_by(lambda number: number % KEYS).process(Totals()).uid("totals")
    totals.sink_to(FileSink(str(output))).uid("files")
    return env.execute_async("totals")


def go_on(settings: dict[str, Any], root: Path, output: Path, place: str) -> None:
    """Start from a savepoint, until there is more output than before."""
    before = len(lines(output))
    # The output may be that of a pipeline with its checkpoints elsewhere.
    take_over = {"execution.savepoint.path": place, "execution.take-over": True}
    client = start(settings, root, output, **take_over)
    until(lambda: len(lines(output)) > before, job=client)
    client.stop().result(timeout=60)


def held(place: str) -> dict[int, int]:
    """The counts in a savepoint, by key."""
    with StateReader(place) as reader:
        table = reader.table("totals", "count")
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def lines(output: Path) -> list[str]:
    paths = sorted(output.glob("part-*"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def faults(written: list[str]) -> list[str]:
    """What is wrong with these records: each key's counts are 1, 2, 3, ... and no number comes twice."""
    records = [line.split() for line in written if not line.startswith("end")]
    twice = [number for number, times in Counter(record[0] for record in records).items() if times > 1]
    counts: dict[int, list[int]] = {key: [] for key in range(KEYS)}
    for number, count in records:
        counts[int(number) % KEYS].append(int(count))
    gaps = [key for key, seen in counts.items() if sorted(seen) != list(range(1, len(seen) + 1))]
    return [f"{number} is there twice" for number in twice] + [f"key {key} has gaps" for key in gaps]


def first_counts(written: list[str]) -> dict[int, int]:
    """The lowest count of each key."""
    counts: dict[int, int] = {}
    for number, count in (map(int, line.split()) for line in written):
        counts[number % KEYS] = min(count, counts.get(number % KEYS, count))
    return counts


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
def test_a_job_stopped_with_a_savepoint_goes_on_from_it_exactly(
    settings: dict[str, Any], tmp_path: Path, backend: str, form: SavepointFormat
) -> None:
    output = tmp_path / "out"
    client = start(settings, tmp_path / "one", output, **{"state.backend.type": backend})
    until(lambda: lines(output), job=client)
    taken = client.stop_with_savepoint(False, str(tmp_path / "savepoints"), format_type=form)
    place = taken.result(timeout=60)

    assert client.get_job_execution_result().result(timeout=60).state == "stopped"
    assert Path(place).parent == tmp_path / "savepoints"
    assert sum(held(place).values()) == len(lines(output))
    go_on(settings, tmp_path / "two", output, place)
    assert faults(lines(output)) == []
    assert not any(line.startswith("end") for line in lines(output))


@pytest.mark.spec("000/STATE-09")
@pytest.mark.parametrize("form", FORMS)
def test_a_job_goes_on_after_savepoints_and_others_go_on_from_them(
    settings: dict[str, Any], tmp_path: Path, form: SavepointFormat
) -> None:
    output = tmp_path / "out"
    more = {"state.savepoints.dir": str(tmp_path / "savepoints"), "state.checkpoints.num-retained": 1}
    client = start(settings, tmp_path / "state", output, **more)
    until(lambda: lines(output), job=client)
    taken = [client.trigger_savepoint(format_type=form) for _ in range(2)]
    places = [each.result(timeout=60) for each in taken]
    before = len(lines(output))
    until(lambda: len(lines(output)) > before, job=client)
    client.stop().result(timeout=60)

    assert faults(lines(output)) == []
    for place in places:
        fork = tmp_path / Path(place).name
        go_on(settings, fork / "state", fork / "out", place)
        counts = held(place)
        seen = first_counts(lines(fork / "out"))
        assert seen == {key: counts.get(key, 0) + 1 for key in seen}


def test_a_drained_job_brings_time_to_its_end_and_its_savepoint_knows_what_is_unread(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    client = start(settings, tmp_path / "one", output)
    until(lambda: lines(output), job=client)
    place = client.stop_with_savepoint(True, str(tmp_path)).result(timeout=60)

    assert client.get_job_execution_result().result(timeout=60).state == "stopped"
    written = lines(output)
    assert faults(written) == []
    counts = Counter(int(line.split()[0]) % KEYS for line in written if not line.startswith("end"))
    ended = sorted(line for line in written if line.startswith("end"))
    assert ended == sorted(f"end {key} {count}" for key, count in counts.items())
    go_on(settings, tmp_path / "two", output, place)
    assert faults(lines(output)) == []


def test_a_killed_worker_does_not_keep_a_savepoint_from_coming(tmp_path: Path) -> None:
    settings = {
        "execution.target": "embedded",
        "parallelism.default": 2,
        "pipeline.progress": "off",
        "restart-strategy.fixed-delay.delay": "10 ms",
        "execution.checkpointing.interval": "1 h",
        "testing.faults": "taskmanager-1/task.before-ack@4",
        "testing.faults-dir": str(tmp_path),
    }
    client = start(settings, tmp_path / "state", tmp_path / "out")
    for _ in range(5):
        client.trigger_savepoint(str(tmp_path)).result(timeout=60)
    place = client.stop_with_savepoint(False, str(tmp_path)).result(timeout=60)

    assert client.get_job_execution_result().result(timeout=60).restarts == 1
    assert faults(lines(tmp_path / "out")) == []
    assert sum(held(place).values()) == len(lines(tmp_path / "out"))


def test_a_savepoint_that_cannot_be_is_refused_with_the_reason(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    client = start(settings, tmp_path / "state", tmp_path / "out")
    with pytest.raises(
        ConfigError, match=r"a savepoint needs a directory; got no savepoint_directory; give one or set"
    ):
        client.trigger_savepoint()
    with pytest.raises(UnavailableError, match="file"):
        client.trigger_savepoint(str(tmp_path / "file")).result(timeout=60)
    before = len(lines(tmp_path / "out"))
    until(lambda: len(lines(tmp_path / "out")) > before, job=client)
    with pytest.raises(UnavailableError, match="file"):
        client.stop_with_savepoint(False, str(tmp_path / "file")).result(timeout=60)
    assert client.get_job_execution_result().result(timeout=60).state == "stopped"
    with pytest.raises(UnavailableError, match=r"no savepoint was written to .*: the job has ended"):
        client.trigger_savepoint(str(tmp_path)).result(timeout=60)
    assert faults(lines(tmp_path / "out")) == []


def test_jobs_without_checkpoints_have_no_savepoints(tmp_path: Path) -> None:
    settings = {"execution.target": "inline", "parallelism.default": 1, "pipeline.progress": "off"}
    env = StreamExecutionEnvironment.get_execution_environment(
        {**settings, "execution.runtime-mode": "BATCH"}
    )
    env.from_source(GeneratorSource(int, count=100, rate_per_second=1_000)).sink_to(
        FileSink(str(tmp_path / "out"))
    )
    client = env.execute_async("batch")
    with pytest.raises(
        UnavailableError, match="no final checkpoint is possible: batch job 'batch' takes one only at its end"
    ):
        client.stop_with_savepoint(False, str(tmp_path)).result(timeout=60)
    assert client.get_job_execution_result().result(timeout=60).state == "finished"


class Mapper(MapFunction):
    """Tells how many records of a key there were."""

    count = state.Value(int, default=0)

    def map(self, value: int) -> int:
        self.count.update(self.count.value() + 1)
        return self.count.value()


def mapped(place: str) -> int:
    """How many records a savepoint of the program with a mapper counts."""
    with StateReader(place) as reader:
        known = reader.operators()["mapper-id"]
        return sum(reader.table("mapper-id", "count")["value"].to_pylist()) if known else 0


@pytest.mark.spec("002/AX-47")
@pytest.mark.spec("000/STATE-10")
def test_a_savepoint_maps_what_keeps_state_and_fits_with_a_step_put_between(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    anywhere.configure(
        {"state.savepoints.dir": str(tmp_path), "state.checkpoints.dir": str(tmp_path / "state")}
    )

    def stopped(name: str, *, between: bool, more_than: int = 0) -> str:
        numbers = anywhere.from_source(GeneratorSource(int, count=None, rate_per_second=1_000)).uid(
            "source-id"
        )
        if between:
            numbers = numbers.map(abs)
        numbers.key_by(lambda number: number % KEYS).map(Mapper()).uid("mapper-id").print()
        client = anywhere.execute_async(name)
        until(lambda: mapped(client.trigger_savepoint().result(timeout=60)) > more_than)
        return client.stop_with_savepoint(False).result(timeout=60)

    place = stopped("one", between=False)
    uids = {operator.uid for operator in open_snapshot(place).manifest.operators}
    assert uids == {"source-id", "mapper-id"}
    anywhere.configure({"execution.savepoint.path": place})
    later = stopped("other", between=True, more_than=mapped(place))
    assert {operator.uid for operator in open_snapshot(later).manifest.operators} == uids


@pytest.mark.spec("002/AX-45")
@pytest.mark.parametrize(("retained", "kept"), [(3, ["chk-1", "chk-2", "chk-3"]), (1, ["chk-3"])])
def test_three_checkpoints_lie_beside_shared_files_and_those_of_tasks(
    settings: dict[str, Any], tmp_path: Path, retained: int, kept: list[str]
) -> None:
    only_when_told = {"execution.checkpointing.interval": "1 h", "state.checkpoints.num-retained": retained}
    root, output = tmp_path / "state", tmp_path / "output"
    client = start({**settings, **only_when_told}, root, output)
    for place in ("one", "two"):
        client.trigger_savepoint(str(tmp_path / place)).result(timeout=60)
    run = client.get_job_id()
    client.stop().result(timeout=60)

    assert sorted(path.name for path in (root / str(run)).iterdir()) == [*kept, "shared", "taskowned"]
    assert list((root / str(run) / "taskowned").iterdir()) == []
