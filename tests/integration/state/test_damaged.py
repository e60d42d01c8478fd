"""Checkpoint files that are damaged, cut off, gone or newer: a start says so and leaves what is older as it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.backends.storage import LocalStorage
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    KeyedProcessFunction,
    ListStateDescriptor,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.errors import StateCorruptError, StateFormatError, TidegateError
from tidegate.runtime.checkpoint.archive import Archive
from tidegate.runtime.checkpoint.manifest import files_of, metadata_name, settled_name
from tidegate.runtime.checkpoint.record import Record
from tidegate.runtime.result import JobResult
from tidegate.types import Types

Damage = Callable[[bytes], bytes | None]
DAMAGES: dict[str, Damage] = {
    "flipped": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "cut off": lambda data: data[: len(data) // 2],
    "emptied": lambda data: b"",
    "gone": lambda data: None,
}


class Keeps(KeyedProcessFunction):
    """Keeps something in a row and something beside it; fails once there are some checkpoints, if it is to."""

    def __init__(self, state: Path, *, fails: bool) -> None:
        self.state = state
        self.fails = fails

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), 0))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Any:
        if self.fails and len(list(self.state.glob("*/chk-*/_settled"))) >= 3:
            raise ValueError("trouble")
        self.total.update(self.total.value() + value)
        self.seen.add(value)
        yield value


def run(place: Path, backend: str, *, fails: bool = False, **settings: Any) -> JobResult:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "parallelism.default": 1,
            "state.backend.type": backend,
            "state.checkpoints.dir": str(place / "state"),
            "state.backend.fs.memory-threshold": 0,
            "execution.checkpointing.interval": "20 ms",
            "restart-strategy.fixed-delay.attempts": 0,
            **settings,
        }
    )
    numbers = GeneratorSource(lambda n: n, count=10_000, rate_per_second=500.0 if fails else None)
    env.from_source(numbers).key_by(lambda n: n % 7).process(Keeps(place / "state", fails=fails))
    return env.execute("damaged")


def failed(place: Path, backend: str) -> None:
    """Leave several checkpoints of a job that failed, all of them settled."""
    with pytest.raises(TidegateError, match="ValueError: trouble"):
        run(place, backend, fails=True)
    archive(place).mark_settled(record(place).retained[-1])


def record(place: Path) -> Record:
    decision = LocalStorage(place / "state").decisions.read("damaged/latest")
    assert decision is not None
    return msgspec.msgpack.decode(decision.data, type=Record)


def archive(place: Path) -> Archive:
    storage = LocalStorage(place / "state")
    return Archive(storage.blobs, storage.decisions)


def older(place: Path) -> dict[Path, bytes]:
    """What all checkpoints but the newest consist of."""
    names: set[str] = set()
    for kept in record(place).retained[:-1]:
        names |= {metadata_name(kept.run, kept.checkpoint)} | files_of(archive(place).load(kept))
    return {place / "state" / name: (place / "state" / name).read_bytes() for name in names}


def newest_metadata(place: Path) -> Path:
    kept = record(place).retained[-1]
    return place / "state" / metadata_name(kept.run, kept.checkpoint)


def newest_state(place: Path) -> Path:
    """A state file that no older checkpoint needs."""
    files = files_of(archive(place).load(record(place).retained[-1]))
    return min(place / "state" / name for name in files if place / "state" / name not in older(place))


def goes_on(place: Path, backend: str) -> bool:
    """Whether the job ends well from the checkpoint before the newest one."""
    settings: dict[str, Any] = {"execution.savepoint.path": str(record(place).retained[-2].checkpoint)}
    return run(place, backend, **settings).state == "finished"


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("backend", "which"),
    [
        ("filesystem", newest_metadata),
        ("heap", newest_state),
        ("filesystem", newest_state),
        ("rocksdb", newest_state),
    ],
    ids=["metadata", "heap", "filesystem", "rocksdb"],
)
def test_a_damaged_newest_checkpoint_is_named_and_an_older_one_is_gone_on_from(
    tmp_path: Path, backend: str, which: Callable[[Path], Path], damage: str
) -> None:
    failed(tmp_path, backend)
    before = older(tmp_path)
    file = which(tmp_path)
    changed = DAMAGES[damage](file.read_bytes())
    if changed is None:
        file.unlink()
    else:
        file.write_bytes(changed)

    with pytest.raises(StateCorruptError, match=rf"{re.escape(file.name)}.*restore an older checkpoint"):
        run(tmp_path, backend)

    assert before
    assert older(tmp_path) == before
    assert goes_on(tmp_path, backend)


def test_metadata_of_a_newer_version_is_named_and_an_older_checkpoint_is_gone_on_from(tmp_path: Path) -> None:
    failed(tmp_path, "filesystem")
    before = older(tmp_path)
    file = newest_metadata(tmp_path)
    data = bytearray(file.read_bytes())
    data[5] = 9
    file.write_bytes(data)

    with pytest.raises(
        StateFormatError, match=r"_metadata: metadata version 9 is newer than supported 2; upgrade"
    ):
        run(tmp_path, "filesystem")

    assert older(tmp_path) == before
    assert goes_on(tmp_path, "filesystem")


def test_a_damaged_checkpoint_whose_output_is_in_doubt_is_told_apart_and_there_is_a_way_on(
    tmp_path: Path,
) -> None:
    failed(tmp_path, "filesystem")
    *_, older, newest = record(tmp_path).retained
    newest_metadata(tmp_path).write_bytes(b"damaged")
    (tmp_path / "state" / settled_name(newest.run, newest.checkpoint)).unlink()
    settings: dict[str, Any] = {"execution.savepoint.path": str(older.checkpoint)}

    with pytest.raises(
        StateCorruptError,
        match=rf"checkpoint {newest.checkpoint} of pipeline 'damaged' is decided, but its metadata cannot be read, "
        r"so its output may or may not be visible: .*_metadata is not checkpoint metadata; .* start under another pipeline.id with -s",
    ):
        run(tmp_path, "filesystem", **settings)

    path = newest_metadata(tmp_path).parents[1] / f"chk-{older.checkpoint}"
    settings = {"execution.savepoint.path": str(path), "pipeline.id": "another"}
    assert run(tmp_path, "filesystem", **settings).state == "finished"
