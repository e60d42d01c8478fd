"""What a job left in its checkpoints, read as tables by somebody who does not have the program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from tidegate.backends.storage import StorageFiles
from tidegate.common import Types
from tidegate.datastream import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    state,
)
from tidegate.errors import ConfigError, StateCorruptError, StateFormatError
from tidegate.keys import key_bytes, key_group
from tidegate.runtime.checkpoint.savepoint import open_snapshot, write_savepoint
from tidegate.runtime.options import SavepointFormat
from tidegate.state_reader import StateReader
from tidegate.state_writer import StateWriter

FAR = 2**50
EVENTS = [("ada", 3), ("bob", 10), ("ada", 1), ("cyd", 7), ("ada", 2)]


class Account(KeyedProcessFunction):
    """Keeps a value, a list and a map, and a timer that is never due."""

    total = state.Value(int, default=0)
    seen = state.List(int)
    times = state.Map(int, int)
    unused = state.Value(str)

    def process_element(self, value: tuple[str, int], ctx: Any) -> None:
        self.total.update(self.total.value() + value[1])
        self.seen.add(value[1])
        self.times.put(value[1], self.total.value())
        assert self.unused.value() is None
        ctx.timer_service().register_processing_time_timer(FAR)


def first(pair: tuple[str, int]) -> str:
    return pair[0]


def paired(pair: tuple[str, int]) -> tuple[str, int]:
    return pair[0], len(pair[0])


def checkpoint_of(
    env: StreamExecutionEnvironment, root: Path, by: Callable[[tuple[str, int]], Any] = first
) -> Path:
    """The last checkpoint of a job over all events."""
    env.configure({"state.checkpoints.dir": str(root)})
    records = env.from_collection(EVENTS).set_parallelism(1)
    records.key_by(by).process(Account()).uid("account").print()
    env.execute("accounts")
    return max(root.glob("*/chk-*"), key=lambda path: int(path.name.removeprefix("chk-")))


@pytest.fixture
def inline() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "parallelism.default": 2}
    )


@pytest.fixture
def checkpoint(inline: StreamExecutionEnvironment, tmp_path: Path) -> Path:
    return checkpoint_of(inline, tmp_path)


def test_a_checkpoint_of_each_executor_is_read(anywhere: StreamExecutionEnvironment, tmp_path: Path) -> None:
    with StateReader(checkpoint_of(anywhere, tmp_path)) as reader:
        totals = reader.table("account", "total")

    assert dict(zip(totals["key"].to_pylist(), totals["value"].to_pylist(), strict=True)) == {
        "ada": 6,
        "bob": 10,
        "cyd": 7,
    }


@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
def test_every_kind_of_state_of_each_backend_is_read(
    inline: StreamExecutionEnvironment, tmp_path: Path, backend: str
) -> None:
    inline.configure({"state.backend.type": backend})
    path = checkpoint_of(inline, tmp_path)
    with StateReader(f"file://{path}/_metadata", backend=backend) as reader:
        assert reader.operators() == {"account": ("seen", "times", "total", "unused")}
        seen = reader.table("account", "seen", key="ada")
        assert seen.select(["position", "value"]).to_pylist() == [
            {"position": 0, "value": 3},
            {"position": 1, "value": 1},
            {"position": 2, "value": 2},
        ]
        times = reader.table("account", "times", key="ada")
        assert dict(zip(times["map_key"].to_pylist(), times["value"].to_pylist(), strict=True)) == {
            3: 3,
            1: 4,
            2: 6,
        }
        timers = reader.timers("account", "processing")
        assert sorted(timers["key"].to_pylist()) == ["ada", "bob", "cyd"]
        assert set(timers["time"].to_pylist()) == {FAR}
        assert len(reader.timers("account")) == 0
        assert len(reader.table("account", "unused", key="ada")) == 0


def test_only_what_is_asked_for_is_found(checkpoint: Path) -> None:
    with StateReader(checkpoint) as reader:
        assert reader.table("account", "total", key="bob")["value"].to_pylist() == [10]
        assert len(reader.table("account", "total", key="dan")) == 0
        assert len(reader.table("account", "total", key=7)) == 0
        assert len(reader.table("account", "total", namespace=b"")) == 3
        assert len(reader.table("account", "total", namespace=b"w")) == 0
        large = reader.table("account", "total", filter=pc.field("value") > 6)
        assert sorted(large["key"].to_pylist()) == ["bob", "cyd"]
        assert reader.table("account", "total", key="cyd", filter=pc.field("value") > 7).num_rows == 0


def test_only_the_files_of_the_state_and_of_the_keys_groups_are_read(
    checkpoint: Path, tmp_path: Path
) -> None:
    StateWriter(checkpoint).write(tmp_path / "savepoint")
    folder = tmp_path / "savepoint" / "keyed" / "operator=account"
    group = key_group(key_bytes("ada"), 128)
    for file in folder.rglob("*.parquet"):
        first, last = map(int, file.stem.split("-"))
        if file.parent.name != "state=total" or not first <= group <= last:
            file.unlink()
    assert len(list(folder.rglob("*.parquet"))) == 1
    with StateReader(tmp_path / "savepoint") as reader:
        assert reader.table("account", "total", key="ada")["value"].to_pylist() == [6]
        with pytest.raises(StateCorruptError, match=r"state=total/.*parquet does not exist"):
            reader.table("account", "total")


def test_keys_of_several_fields_are_columns_of_several_fields(
    inline: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    with StateReader(checkpoint_of(inline, tmp_path, by=paired)) as reader:
        assert reader.table("account", "total", key=("bob", 3))["value"].to_pylist() == [10]
        assert len(reader.table("account", "total", key=("bob", 4))) == 0
        assert {"f0": "ada", "f1": 3} in reader.table("account", "total")["key"].to_pylist()


def test_reading_changes_nothing(checkpoint: Path) -> None:
    def content() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in checkpoint.parent.parent.rglob("*") if path.is_file()}

    before = content()
    with StateReader(checkpoint) as reader:
        reader.table("account", "total")
    reader.close()

    assert content() == before


def test_what_is_not_there_is_named(checkpoint: Path, tmp_path: Path) -> None:
    with StateReader(checkpoint) as reader:
        with pytest.raises(ConfigError, match=r"no state 'sum'.*known are seen, times, total, unused"):
            reader.table("account", "sum")
        with pytest.raises(ConfigError, match="no keyed state of operator 'accounts'; known are account"):
            reader.table("accounts", "total")
    with pytest.raises(
        ConfigError, match="'7' is not a checkpoint or savepoint; expected <root>/<run>/chk-<number>"
    ):
        StateReader("7")
    with pytest.raises(StateCorruptError, match="chk-99/_metadata does not exist"):
        StateReader(checkpoint.parent / "chk-99")


def test_damaged_metadata_is_refused(checkpoint: Path) -> None:
    metadata = checkpoint / "_metadata"
    good = metadata.read_bytes()
    metadata.write_bytes(good[:-1])
    with pytest.raises(StateCorruptError, match="_metadata is damaged: its checksum does not match"):
        StateReader(checkpoint)
    metadata.write_bytes(good[:4] + b"\0\x09" + good[6:])
    with pytest.raises(StateFormatError, match="metadata version 9 is newer than supported"):
        StateReader(checkpoint)


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
PRICES = ListStateDescriptor("prices", Types.LONG())
NOTES = ListStateDescriptor("notes")


class Keeps(BroadcastProcessFunction, CheckpointedFunction):
    """Keeps rules by broadcast, prices in shares and notes that no column has a type for."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.prices = store.get_list_state(PRICES)
        self.notes = store.get_union_list_state(NOTES)

    def process_element(self, value: tuple[str, int], ctx: Any) -> None:
        self.prices.add(value[1])
        self.notes.add({value[0]})

    def process_broadcast_element(self, value: tuple[str, int], ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(*value)

    def snapshot_state(self, context: Any) -> None: ...


@pytest.mark.parametrize("threshold", [0, 1_000_000], ids=["in files", "inline"])
@pytest.mark.parametrize("form", ["checkpoint", "native", "canonical"])
def test_lists_and_broadcast_maps_of_every_kind_of_snapshot_are_read(
    anywhere: StreamExecutionEnvironment, tmp_path: Path, form: SavepointFormat | str, threshold: int
) -> None:
    anywhere.configure({"state.checkpoints.dir": str(tmp_path / "state")})
    anywhere.configure({"state.backend.fs.memory-threshold": threshold})
    rules = anywhere.from_collection([("low", 1), ("high", 9)]).set_parallelism(1).broadcast(RULES)
    events = anywhere.from_collection(EVENTS).set_parallelism(1).rebalance()
    events.connect(rules).process(Keeps()).uid("keeps").print()
    anywhere.execute("keeps")
    place = max((tmp_path / "state").glob("*/chk-*"), key=lambda path: int(path.name[4:]))
    if form != "checkpoint":
        opened = open_snapshot(place)
        files = StorageFiles(opened.storage.blobs, "")
        place = tmp_path / "savepoint"
        write_savepoint(opened.manifest, files, place, "heap", form)  # type: ignore[arg-type] # one of the two here

    with StateReader(place) as reader:
        assert reader.unkeyed() == {"keeps": ("notes", "prices", "rules")}
        assert reader.operators() == {}
        prices = reader.unkeyed_table("keeps", "prices")
        kept = reader.unkeyed_table("keeps", "rules").to_pylist()
        notes = reader.unkeyed_table("keeps", "notes")

    subtasks = range(anywhere.get_parallelism())
    assert sorted(prices["value"].to_pylist()) == sorted(number for _, number in EVENTS)
    assert prices.column_names == ["subtask", "position", "value"]
    for subtask in subtasks:
        mine = [row["position"] for row in prices.to_pylist() if row["subtask"] == subtask]
        assert mine == list(range(len(mine))) != []
        rows = {row["map_key"]: row["value"] for row in kept if row["subtask"] == subtask}
        assert rows == {"low": 1, "high": 9}
    assert len(kept) == 2 * len(subtasks)
    assert {type(note) for note in notes["value"].to_pylist()} == {bytes}


def test_state_without_keys_that_is_not_there_is_named(checkpoint: Path) -> None:
    with StateReader(checkpoint) as reader:
        assert reader.unkeyed() == {}
        with pytest.raises(
            ConfigError, match="no state 'held' without keys of operator 'account'; known are none"
        ):
            reader.unkeyed_table("account", "held")
