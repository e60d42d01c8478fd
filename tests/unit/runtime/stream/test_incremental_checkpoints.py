"""Incremental checkpoints of a job whose state is in RocksDB: which files they upload, refer to and delete."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.stream import observed
from tests.unit.runtime.stream.written import Halting
from tidegate.backends.spi import StoredChunk
from tidegate.connectors.blackhole import BlackHoleSink
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state
from tidegate.runtime.checkpoint.savepoint import open_snapshot
from tidegate.state_reader import StateReader

COUNT = 4_000


class Counts(KeyedProcessFunction):
    """How often each key came; looks at what is stored when it is told to, in the process of the test."""

    seen = state.Value(int, default=0)

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        self.seen.update(self.seen.value() + 1)
        if value == COUNT // 2:
            observed.LOOK()
        yield self.seen.value()


def checkpoints(root: Path) -> list[Path]:
    found = [path.parent for path in root.glob("*/chk-*/_metadata")]
    return sorted(found, key=lambda path: int(path.name.removeprefix("chk-")))


def data_files(checkpoint: Path) -> set[str]:
    """The files of the database that a checkpoint refers to."""
    return {
        chunk.name
        for operator in open_snapshot(checkpoint).manifest.operators
        for handle in operator.keyed
        if handle.base is not None
        for name, chunk in handle.base.files
        if isinstance(chunk, StoredChunk) and name.endswith(".sst")
    }


@pytest.mark.spec("004/AX-027")
def test_the_first_checkpoint_is_deleted_and_its_files_stay_that_the_last_one_refers_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, first = tmp_path / "state", dict[str, set[str]]()

    def look() -> None:
        (oldest, *_) = checkpoints(root)
        first[oldest.name] = data_files(oldest)

    monkeypatch.setattr(observed, "LOOK", look)
    # So little state would be kept as a log of changes, without a database file, for many checkpoints.
    monkeypatch.setattr("tidegate.backends.keyed.snapshot.MAX_SEGMENTS", 1)
    monkeypatch.setattr("tidegate.backends.keyed.snapshot.MIN_LOG_BYTES", 0)
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "parallelism.default": 1,
            "execution.checkpointing.interval": "20 ms",
            "state.backend.type": "rocksdb",
            "state.backend.fs.memory-threshold": 0,
            "state.checkpoints.num-retained": 1,
            "state.checkpoints.dir": str(root),
        }
    )
    numbers = env.from_source(Halting(int, COUNT, halt=COUNT // 2)).uid("numbers")
    numbers.key_by(abs).process(Counts()).uid("counts").sink_to(BlackHoleSink()).uid("nothing")
    env.execute("incremental")

    ((name, files_of_first),) = first.items()
    (last,) = checkpoints(root)
    assert last.name != name
    stored = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    shared = files_of_first & data_files(last)
    assert shared, "the last checkpoint refers to files that the first one uploaded"
    assert data_files(last) - files_of_first, "it has uploaded others"
    assert data_files(last) <= stored
    assert not (files_of_first - data_files(last)) & stored, "what nothing refers to is deleted"
    with StateReader(last) as reader:
        assert len(reader.table("counts", "seen")) == COUNT
