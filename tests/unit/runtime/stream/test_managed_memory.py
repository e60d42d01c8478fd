"""Memory that the slots of a process divide: what RocksDB and sorting get of it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.runtime.task.sorter import Sorter

Env = StreamExecutionEnvironment
MEGABYTE = 1024 * 1024


class Buffers(KeyedProcessFunction):
    """Tells the size of a write buffer of each database that is open in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self, runtime_context: Any) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", default=0))

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        self._seen.update(self._seen.value() + 1)
        for log in self._directory.glob("tidegate-state-*/**/db/LOG"):
            for size in re.findall(r"Options.write_buffer_size: (\d+)$", log.read_text(), re.MULTILINE):
                yield int(size)


def test_databases_of_a_process_stay_within_its_memory(
    anywhere: Env, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    settings = {"state.backend.type": "rocksdb", "taskmanager.memory.managed.size": "64 mb"}
    anywhere.configure(settings)

    sizes = list(
        anywhere.from_collection(range(9)).key_by(abs).process(Buffers(tmp_path)).execute_and_collect()
    )

    # Inline, one process has all slots; else each slot is a process. A quarter is for writes; there are two buffers.
    slots = 2 if request.node.callspec.id == "inline" else 1
    assert set(sizes) == {64 * MEGABYTE // slots // 4 // 2}


@pytest.mark.spec("002/AX-02", "004/AX-037")
@pytest.mark.processes
def test_the_databases_of_three_slots_have_a_third_of_the_memory_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    env = Env.get_execution_environment(
        {
            "execution.target": "embedded",
            "pipeline.progress": "off",
            "parallelism.default": 3,
            "minicluster.number-of-taskmanagers": 1,
            "taskmanager.numberOfTaskSlots": 3,
            "state.backend.type": "rocksdb",
            "taskmanager.memory.managed.size": "300 mb",
        }
    )
    found = env.from_collection(range(99)).key_by(abs).process(Buffers(tmp_path)).execute_and_collect()

    # A quarter of what a slot has is for writes, in two buffers.
    assert set(found) == {100 * MEGABYTE // 4 // 2}


def test_a_sort_of_a_batch_job_takes_half_of_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    class Noting(Sorter):
        def __init__(self, directory: Path, memory_bytes: int) -> None:
            taken.append(memory_bytes)
            super().__init__(directory, memory_bytes)

    monkeypatch.setattr("tidegate.runtime.task.sorted_input.Sorter", Noting)
    env = Env.get_execution_environment(
        {
            "execution.target": "inline",
            "execution.runtime-mode": "BATCH",
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "taskmanager.memory.managed.size": "64 mb",
        }
    )

    numbers = env.from_parallel_collection([(n % 3, n) for n in range(9)])
    sums = numbers.key_by(lambda pair: pair[0]).sum(1)

    assert sorted(sums.execute_and_collect()) == [(0, 9), (1, 12), (2, 15)]
    # Two subtasks of the sum, and the collector, which is one.
    assert taken == [16 * MEGABYTE, 16 * MEGABYTE, 32 * MEGABYTE]
