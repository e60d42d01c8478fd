"""Savepoints made by hand, from nothing or from a checkpoint, and jobs that go on from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.common import Types
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state
from tidegate.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.errors import ConfigError, StateCorruptError, StateFormatError
from tidegate.state_reader import StateReader
from tidegate.state_writer import StateWriter

EVENTS = [("ada", 3), ("bob", 10), ("ada", 1)]
TOTAL = ValueStateDescriptor("total", Types.LONG())
SEEN = ListStateDescriptor("seen", Types.LONG())
TIMES = MapStateDescriptor("times", Types.LONG(), Types.LONG())
MOST = ReducingStateDescriptor("most", max, Types.LONG())


class Account(KeyedProcessFunction):
    """Keeps a value, a list, a map and a maximum, and tells them with each record."""

    total = state.Value(int, default=0)
    seen = state.List(int)
    times = state.Map(int, int)
    most = state.Reducing(max, int)

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        key, number = value
        self.total.update(self.total.value() + number)
        self.seen.add(number)
        self.times.put(number, self.total.value())
        self.most.add(number)
        yield key, self.total.value(), self.seen.get(), dict(self.times.items()), self.most.get()


def first(pair: tuple[str, int]) -> str:
    return pair[0]


def run(env: StreamExecutionEnvironment, root: Path, **settings: Any) -> Path:
    """The last checkpoint of a job over all events."""
    env.configure({"state.checkpoints.dir": str(root), **settings})
    records = env.from_collection(EVENTS).uid("events").set_parallelism(1)
    records.key_by(first).process(Account()).uid("account").print()
    env.execute("accounts")
    return max(root.glob("*/chk-*"), key=lambda path: int(path.name.removeprefix("chk-")))


def totals(place: Path) -> dict[str, int]:
    with StateReader(place) as reader:
        table = reader.table("account", "total")
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def files_in(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def inline() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "parallelism.default": 2}
    )


@pytest.fixture
def bootstrapped(tmp_path: Path) -> Path:
    place = tmp_path / "savepoint"
    writer = StateWriter().put("account", TOTAL, [("ada", 100), ("cyd", 7)])
    writer.put("account", SEEN, [("ada", [8, 9])]).put("account", TIMES, [("ada", {8: 1, 3: 2})])
    writer.put("account", MOST, [("ada", 5), ("ada", 50)]).write(place)
    return place


@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
def test_a_job_goes_on_from_state_that_was_bootstrapped(
    anywhere: StreamExecutionEnvironment, tmp_path: Path, bootstrapped: Path, backend: str
) -> None:
    before = files_in(bootstrapped)
    settings = {"execution.savepoint.path": str(bootstrapped), "state.backend.type": backend}
    checkpoint = run(anywhere, tmp_path / "state", **settings)

    assert totals(checkpoint) == {"ada": 104, "bob": 10, "cyd": 7}
    with StateReader(checkpoint) as reader:
        assert reader.table("account", "seen", key="ada")["value"].to_pylist() == [8, 9, 3, 1]
        times = reader.table("account", "times", key="ada")
        found = dict(zip(times["map_key"].to_pylist(), times["value"].to_pylist(), strict=True))
        assert found == {8: 1, 3: 103, 1: 104}
        assert reader.table("account", "most", key="ada")["value"].to_pylist() == [50]
    assert files_in(bootstrapped) == before


def test_a_checkpoint_becomes_a_savepoint_that_is_edited_and_gone_on_from(tmp_path: Path) -> None:
    checkpoint = run(inline(), tmp_path / "one", **{"state.backend.type": "rocksdb"})
    assert totals(checkpoint) == {"ada": 4, "bob": 10}
    before = files_in(tmp_path / "one")
    StateWriter(checkpoint).remove("events").put("account", TOTAL, [("bob", 1_000)]).write(
        tmp_path / "edited"
    )
    assert files_in(tmp_path / "one") == before
    assert totals(tmp_path / "edited") == {"ada": 4, "bob": 1_000}

    settings = {"execution.savepoint.path": str(tmp_path / "edited"), "parallelism.default": 3}
    assert totals(run(inline(), tmp_path / "two", **settings)) == {"ada": 8, "bob": 1_010}


def test_a_savepoint_is_not_needed_after_the_start_and_can_be_used_again(
    tmp_path: Path, bootstrapped: Path
) -> None:
    settings = {"execution.savepoint.path": str(bootstrapped)}
    for root in ("one", "two"):
        assert totals(run(inline(), tmp_path / root, **settings))["ada"] == 104
    again = run(inline(), tmp_path / "one", **settings)
    assert totals(again)["ada"] == 104
    for path in sorted(bootstrapped.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert totals(again)["ada"] == 104


def test_state_that_is_removed_is_gone(tmp_path: Path, bootstrapped: Path) -> None:
    StateWriter(bootstrapped).remove("account").write(tmp_path / "empty")

    settings = {"execution.savepoint.path": str(tmp_path / "empty")}
    assert totals(run(inline(), tmp_path / "state", **settings)) == {"ada": 4, "bob": 10}


def test_what_cannot_be_is_refused_and_damages_nothing(tmp_path: Path, bootstrapped: Path) -> None:
    before = files_in(bootstrapped)
    with pytest.raises(ConfigError, match="savepoint' already holds a savepoint; give a directory"):
        StateWriter().write(bootstrapped)
    with pytest.raises(ConfigError, match="has no operator 'accounts'; known are account"):
        StateWriter(bootstrapped).remove("accounts")
    with pytest.raises(StateFormatError, match="state 'total' was stored with another type"):
        StateWriter(bootstrapped).put("account", ValueStateDescriptor("total", Types.STRING()), [])
    with pytest.raises(ConfigError, match="nowhere' is not a checkpoint or savepoint; expected <root>"):
        StateWriter(tmp_path / "nowhere")
    assert files_in(bootstrapped) == before


def test_a_damaged_savepoint_starts_nothing(tmp_path: Path, bootstrapped: Path) -> None:
    whole = run(inline(), tmp_path / "state")
    (file,) = bootstrapped.rglob("state=seen/*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(StateCorruptError, match=r"state=seen/00000-00127.parquet is damaged; got"):
        run(inline(), tmp_path / "state", **{"execution.savepoint.path": str(bootstrapped)})
    file.unlink()
    with pytest.raises(StateCorruptError, match="does not exist"):
        run(inline(), tmp_path / "state", **{"execution.savepoint.path": str(bootstrapped)})

    assert totals(whole) == {"ada": 4, "bob": 10}


def test_a_checkpoint_whose_output_may_be_invisible_makes_no_savepoint(tmp_path: Path) -> None:
    checkpoint = run(inline(), tmp_path / "state")
    (checkpoint / "_settled").unlink()
    with pytest.raises(ConfigError, match="its output may not be visible; start its pipeline once"):
        StateWriter(checkpoint)
