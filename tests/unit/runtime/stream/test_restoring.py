"""Starts from a snapshot that somebody chose: copied or claimed, of another pipeline, with other steps or key groups."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.backends.spi import StoredChunk
from tidegate.backends.storage import StorageFiles
from tidegate.clock import new_id
from tidegate.common import Types
from tidegate.connectors.files import FileSink
from tidegate.datastream import (
    CheckpointedFunction,
    DataStream,
    FlatMapFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    StreamExecutionEnvironment,
    state,
)
from tidegate.errors import ConfigError, StateCorruptError
from tidegate.runtime.checkpoint.manifest import stored
from tidegate.runtime.checkpoint.savepoint import open_settled, write_savepoint
from tidegate.runtime.options import SavepointFormat
from tidegate.state_reader import StateReader

EVENTS = [(f"user-{number % 29}", number) for number in range(300)]
ONCE = {name: sum(number for other, number in EVENTS if other == name) for name, _ in EVENTS}
TWICE = {name: 2 * total for name, total in ONCE.items()}
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
MODE, PATH = "execution.savepoint-restore-mode", "execution.savepoint.path"

backends = pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])


class Totals(KeyedProcessFunction):
    """Adds numbers by key, keeps them too, and how often each came, and a timer that is never due."""

    total = state.Value(int, default=0)
    seen = state.List(int)
    times = state.Map(int, int)

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[tuple[str, int]]:
        key, number = value
        self.total.update(self.total.value() + number)
        self.seen.add(number)
        self.times.put(number, (self.times.get(number) or 0) + 1)
        ctx.timer_service().register_processing_time_timer(2**50 + number)
        yield key, self.total.value()


def environment(root: Path, **settings: Any) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "state.backend.fs.memory-threshold": 64,
            "restart-strategy.fixed-delay.attempts": 0,
            "state.checkpoints.dir": str(root),
            **settings,
        }
    )


def program(env: StreamExecutionEnvironment, source: str = "events") -> DataStream[Any]:
    events = env.from_collection(EVENTS, PAIR).uid(source).set_parallelism(1)
    return events.key_by(lambda pair: pair[0]).process(Totals()).uid("totals")


def run(root: Path, *source: Any, **settings: Any) -> Path:
    """Run the program over all events; its last checkpoint."""
    env = environment(root, **settings)
    program(env, *source).print()
    result = env.execute(settings.get("pipeline.id", "totals"))
    return root / result.run / f"chk-{result.checkpoint}"


def savepoint(checkpoint: Path, place: Path, form: SavepointFormat, backend: str = "filesystem") -> Path:
    found = open_settled(checkpoint)
    write_savepoint(found.manifest, StorageFiles(found.storage.blobs, ""), place, backend, form)
    return place


def held(place: Path) -> dict[str, Any]:
    """Everything in a snapshot, by key."""
    with StateReader(place) as reader:
        tables = {name: reader.table("totals", name) for name in ("total", "seen", "times")}
        timers = reader.timers("totals", "processing").select(["key", "time"]).to_pylist()
    found = {
        name: sorted(repr(row) for row in table.drop_columns(["key_group"]).to_pylist())
        for name, table in tables.items()
    }
    return {**found, "timers": sorted(map(repr, timers))}


def totals(place: Path) -> dict[str, int]:
    with StateReader(place) as reader:
        table = reader.table("totals", "total")
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def files_in(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


@backends
@pytest.mark.parametrize("form", ["canonical", "native"])
def test_what_is_not_claimed_stays_as_it_is_and_is_not_needed(
    tmp_path: Path, backend: str, form: SavepointFormat
) -> None:
    first = run(tmp_path / "one", **{"state.backend.type": backend})
    place = savepoint(first, tmp_path / "two" / "savepoint", form, backend)
    before = files_in(place)
    started = run(tmp_path / "two", **{"state.backend.type": backend, PATH: str(place)})

    assert files_in(place) == before
    shutil.rmtree(place)
    assert held(started) == held(first)
    again = {"state.backend.type": backend, PATH: str(started)}
    assert totals(run(tmp_path / "two", "again", **again)) == TWICE


@backends
@pytest.mark.parametrize("form", ["canonical", "native"])
def test_what_is_claimed_is_used_where_it_is_and_deleted_when_nobody_needs_it(
    tmp_path: Path, backend: str, form: SavepointFormat
) -> None:
    root = tmp_path / "state"
    first = run(root, **{"pipeline.id": "first", "state.backend.type": backend})
    place = savepoint(first, root / "kept" / "savepoint", form, backend)
    written = files_in(root)
    settings = {"state.backend.type": backend, MODE: "CLAIM", "state.checkpoints.num-retained": 10}
    claimed = run(root, **settings, **{PATH: str(place)})

    assert held(claimed) == held(first)
    assert set(files_in(place)) <= set(written)
    assert files_in(place), "its files are those of a retained checkpoint"
    settings["state.checkpoints.num-retained"] = 1
    last = run(root, "again", **settings, **{PATH: str(claimed)})

    assert totals(last) == TWICE
    assert not (place / "_savepoint").exists()
    operators = open_settled(last).manifest.operators
    named = stored(handle for operator in operators for handle in operator.keyed)
    assert {path.relative_to(root).as_posix() for path in files_in(place)} <= set(named)
    assert totals(first) == ONCE, "what was copied to the savepoint is not touched"


def test_a_checkpoint_of_another_pipeline_is_copied_and_never_claimed(tmp_path: Path) -> None:
    first = run(tmp_path, **{"pipeline.id": "first"})
    written = files_in(tmp_path)
    with pytest.raises(
        ConfigError,
        match=r"pipeline 'first' retains it and deletes it later; use execution.savepoint-restore",
    ):
        run(tmp_path, **{PATH: str(first), MODE: "CLAIM"})
    for spelled in (str(first), f"file://{first}/_metadata", f"{first}/"):
        taken = run(tmp_path, **{"pipeline.id": f"other-{len(spelled)}", PATH: spelled})
        assert held(taken) == held(first)
    assert written.items() <= files_in(tmp_path).items()


def test_a_finished_history_of_the_pipeline_itself_can_be_claimed(tmp_path: Path) -> None:
    first = run(tmp_path, **{"state.backend.type": "rocksdb"})
    run(tmp_path, **{"execution.fresh": True})
    assert totals(first) == ONCE
    settings = {MODE: "CLAIM", "state.backend.type": "rocksdb", "state.checkpoints.num-retained": 1}
    last = run(tmp_path, "again", **settings, **{PATH: str(first)})

    assert totals(last) == TWICE
    assert not (first / "_metadata").exists()
    assert not (first / "_settled").exists()


def test_the_journal_of_a_claimed_checkpoint_goes_with_it(tmp_path: Path) -> None:
    files = {"state.backend.fs.memory-threshold": 0}
    first = run(tmp_path, **files, **{"state.log.granularity": "event"})
    handles = [each for operator in open_settled(first).manifest.operators for each in operator.keyed]
    journals = [tmp_path / each.journal.name for each in handles if isinstance(each.journal, StoredChunk)]
    assert [journal for journal in journals if not journal.exists()] == []
    assert journals
    run(tmp_path, **files, **{"execution.fresh": True})
    run(tmp_path, "again", **files, **{PATH: str(first), MODE: "CLAIM", "state.checkpoints.num-retained": 1})

    assert [journal for journal in journals if journal.exists()] == []


def test_what_lies_elsewhere_or_is_damaged_is_not_claimed_and_nothing_changes(tmp_path: Path) -> None:
    first = run(tmp_path / "one")
    outside = savepoint(first, tmp_path / "savepoint", "native")
    run(tmp_path / "two")
    inside = savepoint(first, tmp_path / "two" / "savepoint", "canonical")
    newest = max((tmp_path / "two").glob("*/chk-*"), key=lambda path: int(path.name[4:]))
    with pytest.raises(
        ConfigError,
        match=r"savepoint: it is outside the checkpoint storage file://.*/two, in which this pipeline deletes",
    ):
        run(tmp_path / "two", **{PATH: str(outside), MODE: "CLAIM"})
    (file,) = inside.rglob("state=seen/00000*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(StateCorruptError, match=f"state=seen/{file.name} is damaged; got"):
        run(tmp_path / "two", **{PATH: str(inside), MODE: "CLAIM"})
    assert totals(newest) == ONCE
    assert totals(outside) == ONCE


def test_a_checkpoint_whose_output_may_be_invisible_is_taken_over_by_nobody(tmp_path: Path) -> None:
    first = run(tmp_path / "one")
    (first / "_settled").unlink()
    with pytest.raises(ConfigError, match="its output may not be visible; start its pipeline once to settle"):
        run(tmp_path / "two", **{PATH: str(first)})


def test_an_earlier_history_is_refused_by_a_sink_that_may_have_written_in_it(tmp_path: Path) -> None:
    def start(**settings: Any) -> Path:
        env = environment(tmp_path / "state", **settings)
        program(env).map(str, Types.STRING()).sink_to(FileSink(str(tmp_path / "out"))).uid("files")
        result = env.execute("totals")
        return tmp_path / "state" / result.run / f"chk-{result.checkpoint}"

    first = start()
    start(**{"execution.fresh": True})
    with pytest.raises(
        ConfigError,
        match=r"the snapshot belongs to an earlier lineage of pipeline 'totals'; the commits of sink 'files' in that lineage are unknown",
    ):
        start(**{PATH: str(first)})


@backends
@pytest.mark.parametrize("groups", [7, 128, 1000])
@pytest.mark.parametrize("target", [("inline", 2), ("embedded", 2)], ids=["inline-2", "embedded-2"])
def test_max_parallelism_changes_with_a_canonical_savepoint(
    tmp_path: Path, backend: str, groups: int, target: tuple[str, int]
) -> None:
    first = run(tmp_path / "one", **{"state.backend.type": backend, "pipeline.max-parallelism": 64})
    place = savepoint(first, tmp_path / "savepoint", "canonical", backend)
    settings = {
        "execution.target": target[0],
        "parallelism.default": target[1],
        "state.backend.type": backend,
        "pipeline.max-parallelism": groups,
    }
    second = run(tmp_path / "two", "again", **settings, **{PATH: str(place)})

    assert totals(second) == TWICE
    operator = next(op for op in open_settled(second).manifest.operators if op.uid == "totals")
    assert operator.max_parallelism == groups
    assert len(operator.keyed) == target[1]
    # From now on it is as if it had always been so.
    del settings["pipeline.max-parallelism"]
    third = run(tmp_path / "two", "events", **settings, **{PATH: str(second)})
    assert totals(third) == {name: 3 * total for name, total in ONCE.items()}


def test_max_parallelism_stays_that_of_the_savepoint_unless_the_program_has_one(tmp_path: Path) -> None:
    first = run(tmp_path / "one", **{"pipeline.max-parallelism": 64})
    canonical = savepoint(first, tmp_path / "canonical", "canonical")
    native = savepoint(first, tmp_path / "native", "native")

    second = run(tmp_path / "two", **{PATH: str(canonical)})
    assert (
        next(op for op in open_settled(second).manifest.operators if op.uid == "totals").max_parallelism == 64
    )
    with pytest.raises(
        ConfigError,
        match="max parallelism is 32 but its state was written with 64; set it to 64, restore a canonical savepoint",
    ):
        run(tmp_path / "three", **{PATH: str(native), "pipeline.max-parallelism": 32})


class Keeps(FlatMapFunction, CheckpointedFunction):
    """Keeps what it has seen, as a share and as a whole, and tells a question what it was restored with."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.share = store.get_list_state(ListStateDescriptor("share", Types.LONG()))
        self.union = store.get_union_list_state(ListStateDescriptor("union", Types.LONG()))
        self.told = False

    def flat_map(self, value: int) -> Iterator[Any]:
        if value < 0 and not self.told:
            self.told = True
            yield [list(self.share), list(self.union)]
        if value >= 0:
            self.share.add(value)
            self.union.add(value)

    def snapshot_state(self, context: Any) -> None:
        """What is kept is state as it is."""


@pytest.mark.parametrize("threshold", [0, 1_000_000], ids=["in files", "inline"])
@pytest.mark.parametrize("form", ["canonical", "native"])
def test_operator_state_goes_along_to_another_parallelism(
    tmp_path: Path, form: SavepointFormat, threshold: int
) -> None:
    def ask(root: Path, values: range, **settings: Any) -> tuple[Path, list[Any]]:
        env = environment(root, **settings, **{"state.backend.fs.memory-threshold": threshold})
        numbers = env.from_collection(values, Types.LONG()).uid(new_id()).set_parallelism(1)
        answers: list[Any] = []
        kept = numbers.broadcast() if values[0] < 0 else numbers.rebalance()
        kept.flat_map(Keeps()).uid("keeps").sink_to(FileSink(str(root / "out"))).uid("files")
        result = env.execute("keeps")
        for path in (root / "out").glob("part-*"):
            answers += map(json.loads, path.read_text().splitlines())
        return root / result.run / f"chk-{result.checkpoint}", answers

    first, _ = ask(tmp_path / "one", range(100))
    place = savepoint(first, tmp_path / "savepoint", form)
    _, answers = ask(tmp_path / "two", range(-1, 0), **{PATH: str(place), "parallelism.default": 3})

    assert len(answers) == 3
    assert sorted(number for share, _ in answers for number in share) == list(range(100))
    assert [sorted(union) for _, union in answers] == [list(range(100))] * 3
    assert len(list(place.glob("unkeyed/operator=keeps/list=*.parquet"))) == (2 if form == "canonical" else 0)


class Counts(KeyedProcessFunction):
    """Counts the records of a key."""

    count = state.Value(int, default=0)

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[tuple[str, int]]:
        self.count.update(self.count.value() + 1)
        yield value


def first(pair: tuple[str, int]) -> str:
    return pair[0]


def same(pair: tuple[str, int]) -> tuple[str, int]:
    return pair


def changed(env: StreamExecutionEnvironment, root: Path, *steps: str, **settings: Any) -> Path:
    """Run a program of steps called by their uids over all events, from wherever; its last checkpoint."""
    env.configure({"state.checkpoints.dir": str(root), "execution.savepoint.ignore-unclaimed-state": False})
    env.configure(settings)
    stream: DataStream[Any] = env.from_collection(EVENTS, PAIR).uid(new_id()).set_parallelism(1)
    for uid in steps:
        if uid.startswith("same"):
            stream = stream.map(same, PAIR).uid(uid)
        elif uid.startswith("counts"):
            stream = stream.key_by(first).process(Counts(), PAIR).uid(uid)
        else:
            stream = stream.key_by(first).process(Totals()).uid(uid)
    stream.print()
    result = env.execute(new_id())
    return root / result.run / f"chk-{result.checkpoint}"


def held_of(place: Path, operator: str) -> int:
    """What an operator has counted, or added up, of all keys."""
    with StateReader(place) as reader:
        (name,) = {"count", "total"}.intersection(reader.operators()[operator])
        return sum(reader.table(operator, name)["value"].to_pylist())


@pytest.mark.spec("004/AX-030")
def test_a_savepoint_fits_as_long_as_what_keeps_state_keeps_its_uid(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    before = changed(anywhere, tmp_path, "same", "counts", "totals")
    anywhere.configure({PATH: str(savepoint(before, tmp_path / "savepoint", "canonical"))})
    count, total = len(EVENTS), sum(ONCE.values())

    def holds(*steps: str, **settings: Any) -> dict[str, int]:
        place = changed(anywhere, tmp_path, *steps, **settings)
        return {uid: held_of(place, uid) for uid in steps if not uid.startswith("same")}

    both = {"counts": 2 * count, "totals": 2 * total}
    assert holds("counts", "same", "totals") == both, "in another order"
    assert holds("same", "counts", "same again", "totals") == both, "with another step without state"
    assert holds("counts", "totals") == both, "without a step that has no state"
    assert holds("counts", "counts anew", "totals") == {**both, "counts anew": count}, (
        "with state that is new"
    )
    for steps in (("counted", "totals"), ("totals",)):
        with pytest.raises(
            ConfigError,
            match=r"holds state of operator 'counts', which this program does not have.*with --allow-non-restored-state",
        ):
            holds(*steps)
    left = {"execution.savepoint.ignore-unclaimed-state": True}
    assert holds("totals", **left) == {"totals": 2 * total}, "its state may be left behind"
