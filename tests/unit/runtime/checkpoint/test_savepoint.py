"""Savepoints stand alone: what they were made from can be deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from tidegate.backends.savepoint import read_items
from tidegate.backends.spi import BaseHandle, KeyedHandle
from tidegate.backends.storage import LocalStorage, MemoryStorage, StorageFiles
from tidegate.clock import SYSTEM_CLOCK, ManualClock, new_id
from tidegate.connectors.base import RangeSplit
from tidegate.errors import ConfigError, StateCorruptError, StateFormatError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId, SplitId
from tidegate.keys import KeyGroupRange
from tidegate.runtime.checkpoint.archive import Retained
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, Unsettled, files_of, stored
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.checkpoint.record import Status
from tidegate.runtime.checkpoint.savepoint import copied, open_settled, open_snapshot, write_savepoint
from tidegate.runtime.operators.operator_list import Dealt, OperatorList, read, written
from tidegate.runtime.options import SavepointFormat
from tidegate.twophase.spi import Committable

DEALT: tuple[Dealt, ...] = ("split", "union", "broadcast")
QUEUE = OperatorList("queue", tuple(b"item %d" % number for number in range(10_000)))


@pytest.mark.parametrize("form", ["native", "canonical"])
def test_operator_lists_in_files_are_part_of_a_savepoint(tmp_path: Path, form: SavepointFormat) -> None:
    storage = MemoryStorage()
    files = StorageFiles(storage.blobs, "run/shared")
    held = written(QUEUE, files)
    assert len(held.files) == 1
    state = OperatorState(OperatorUid("wait"), "wait", 1, 128, lists=((held,),))
    first = Manifest(
        *(PipelineId("p"), LineageId("l"), Branch(0), RunId("run"), CheckpointId(1), None, 0), (state,), ()
    )
    assert files_of(first) == set(held.files)
    write_savepoint(first, files, tmp_path / "savepoint", "heap", form)
    storage.blobs.delete(held.files)

    opened = open_snapshot(tmp_path / "savepoint")
    again = MemoryStorage()
    target = StorageFiles(again.blobs, "run-2/shared")
    (operator,) = copied(opened.manifest.operators, StorageFiles(opened.storage.blobs, ""), target)
    moved = operator.lists[0][0]
    assert set(moved.files) == set(again.blobs.list(""))
    assert read(moved, target) == QUEUE


def manifest(*operators: OperatorState) -> Manifest:
    return Manifest(
        PipelineId("p"), LineageId("l"), Branch(0), RunId("run"), CheckpointId(1), None, 0, operators, ()
    )


@dataclass
class Place:
    directory: Path
    files: StorageFiles

    def canonical(self, *operators: OperatorState) -> Path:
        place = self.directory / new_id()
        write_savepoint(manifest(*operators), self.files, place, "heap")
        return place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("savepoints"), StorageFiles(MemoryStorage().blobs, "run"))


plain = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-9, 2**64 - 1), st.floats(allow_nan=False), st.text(max_size=3)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)
items = st.lists(st.one_of(st.binary(max_size=4), plain.map(msgspec.msgpack.encode)), max_size=4).map(tuple)
lists = st.dictionaries(st.text(max_size=4), st.tuples(items, st.sampled_from(DEALT)), max_size=3).map(
    lambda held: tuple(OperatorList(name, *rest) for name, rest in held.items())
)
operators = st.builds(
    OperatorState,
    st.text(min_size=1, max_size=4).map(OperatorUid),
    st.just("name"),
    st.integers(1, 4),
    st.just(128),
    coordinator=st.none() | st.binary(max_size=4),
    splits=items,
    writers=items,
    lists=st.lists(lists, max_size=3).map(tuple),
)


@given(st.lists(operators, max_size=3, unique_by=lambda operator: operator.uid))
def test_what_belongs_to_no_key_comes_back_as_it_was(place: Place, held: list[OperatorState]) -> None:
    found = open_snapshot(place.canonical(*held)).manifest

    assert found == manifest(*(operator for operator in held if not operator.stateless))
    assert open_snapshot(place.canonical(*found.operators)).manifest == found


def test_a_copy_has_every_file_of_a_handle_once(place: Place) -> None:
    base, segment, journal = (place.files.store(bytes([number]) * 30_000) for number in range(3))
    handles = tuple(
        KeyedHandle(groups, BaseHandle("heap", 1, (("base", base),)), (segment,), journal)
        for groups in (KeyGroupRange(0, 64), KeyGroupRange(64, 128))
    )
    storage = MemoryStorage()
    target = StorageFiles(storage.blobs, "copy")
    (copy,) = copied([OperatorState(OperatorUid("a"), "a", 2, 128, handles)], place.files, target)

    assert {chunk for handle in copy.keyed for chunk in handle.chunks} == set(copy.keyed[0].chunks)
    assert [target.fetch(chunk)[:1] for chunk in copy.keyed[0].chunks] == [b"\0", b"\1", b"\2"]
    assert sorted(stored(copy.keyed[:1])) == storage.blobs.list("")


def test_columns_of_lists_and_splits_have_types(place: Place) -> None:
    split = RangeSplit(SplitId("payments-0"), 5, 10, 1)
    rules = [msgspec.msgpack.encode((name, number)) for number, name in enumerate("ab")]
    operator = OperatorState(
        OperatorUid("rules/all"),
        "rules",
        2,
        128,
        splits=(msgspec.msgpack.encode(split),),
        lists=((OperatorList("rules", (rules[0],)),), (OperatorList("rules", (rules[1],)),)),
    )
    folder = place.canonical(operator) / "unkeyed" / "operator=rules%2Fall"

    assert pq.read_table(folder / "list=rules.parquet").to_pylist() == [
        {"subtask": number, "position": 0, "value": {"f0": name, "f1": number}}
        for number, name in enumerate("ab")
    ]
    assert pq.read_table(folder / "splits.parquet")["value"].to_pylist() == [msgspec.to_builtins(split)]
    assert sorted(path.name for path in folder.iterdir()) == ["list=rules.parquet", "splits.parquet"]


def test_damaged_missing_and_newer_files_are_refused(place: Place) -> None:
    operator = OperatorState(OperatorUid("a"), "a", 1, 128, splits=(b"one",))
    whole = place.canonical(operator)
    file = whole / "unkeyed" / "operator=a" / "splits.parquet"
    good = file.read_bytes()
    file.write_bytes(good[:-1])
    with pytest.raises(StateCorruptError, match=r"unkeyed/operator=a/splits.parquet is damaged; got"):
        open_snapshot(whole)
    file.unlink()
    with pytest.raises(StateCorruptError, match=r"splits.parquet does not exist"):
        open_snapshot(whole)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"value": [1]}).replace_schema_metadata({b"tidegate": b'{"version": 9}'}), sink)
    with pytest.raises(
        StateFormatError, match=r"splits: version 9 of canonical savepoints is newer than supported"
    ):
        read_items(bytes(sink.getvalue()), "splits")


@pytest.fixture
def decided(tmp_path: Path) -> Pipeline:
    """A run that has decided checkpoint 1 and is still at making its output visible."""
    pipeline = Pipeline(LocalStorage(tmp_path), PipelineId("p"), RunId("run"), SYSTEM_CLOCK)
    pipeline.acquire(lambda: LineageId("l"), fresh=False, say=print)
    one = CheckpointId(1)
    work = Committable(OperatorUid("sink"), 0, one, b"", "part-1", 5)
    pipeline.archive.write(msgspec.structs.replace(manifest(), unsettled=(Unsettled(one, (work,)),)))
    pipeline.decide(one)
    return pipeline


class Meanwhile(ManualClock):
    """Has something happen while others wait."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self.act = act

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.act()


def test_what_makes_a_savepoint_of_a_running_job_waits_until_its_output_is_visible(
    tmp_path: Path, decided: Pipeline
) -> None:
    clock = Meanwhile(lambda: decided.archive.mark_settled(Retained(RunId("run"), CheckpointId(1))))

    found = open_settled(tmp_path / "run" / "chk-1", clock)

    assert (found.settled, found.manifest.unsettled) == (True, ())


@pytest.mark.parametrize(("status", "waits"), [("running", True), ("failed", False)])
def test_output_that_does_not_become_visible_is_named(
    tmp_path: Path, decided: Pipeline, status: Status, waits: bool
) -> None:
    clock = ManualClock()
    if status != "running":
        decided.leave(status)

    with pytest.raises(
        ConfigError,
        match=r"chk-1' is not settled: its output may not be visible; start its pipeline once to settle it; "
        r"open: sink 'sink' part-1 \(5 records\)",
    ):
        open_settled(tmp_path / "run" / "chk-1", clock)
    assert (clock.monotonic() >= 30) == waits
