"""A process with ten times as much state in RocksDB as it may take of memory: what it really takes, told by the system."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import cloudpickle
import pytest

from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state

pytestmark = pytest.mark.processes

MEGABYTE = 1024 * 1024
NOISE = random.Random(7).randbytes(MEGABYTE)
"""Values are cut from it: RocksDB makes nothing smaller."""


@pytest.fixture(autouse=True)
def _sent_by_value() -> Iterator[None]:
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


def memory_of_this_process(name: Literal["VmRSS", "VmHWM"]) -> int:
    """What is resident, now or at most since `forget_the_most`."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def forget_the_most() -> None:
    Path("/proc/self/clear_refs").write_text("5")


class Hold(KeyedProcessFunction):
    """Keeps a value for each key; leaves in a file how much memory the process took at most since its first record."""

    held = state.Value(bytes)

    def __init__(self, size: int, told: Path) -> None:
        self._size = size
        self._told = told
        self._before: int | None = None

    def process_element(self, value: int, ctx: Any) -> None:
        if self._before is None:
            forget_the_most()
            self._before = memory_of_this_process("VmRSS")
        start = value * 997 * self._size % (MEGABYTE - self._size)
        self.held.update(value.to_bytes(8, "big") + NOISE[start : start + self._size - 8])

    def close(self) -> None:
        assert self._before is not None
        self._told.write_text(str(memory_of_this_process("VmHWM") - self._before))


def most_memory(directory: Path, *, budget: int, value_bytes: int) -> int:
    """What a process takes at most for state of ten times its budget."""
    keys = 10 * budget // value_bytes
    settings = {
        "execution.target": "embedded",
        "parallelism.default": 1,
        "pipeline.progress": "off",
        "execution.checkpointing.interval": "2 s",
        "state.checkpoints.dir": str(directory / "checkpoints"),
        "state.checkpoints.num-retained": 1,
        "state.backend.type": "rocksdb",
        "taskmanager.memory.managed.size": budget,
    }
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = env.from_source(GeneratorSource(int, keys)).key_by(int)
    source.process(Hold(value_bytes, directory / "told")).print()
    env.execute("holding")
    return int((directory / "told").read_text())


def test_ten_times_its_budget_of_state_takes_a_process_no_more_than_a_tenth_over_it(
    tmp_path: Path, profile: Literal["dev", "ci", "long"]
) -> None:
    budget, value_bytes = (256 * MEGABYTE, 200) if profile == "long" else (64 * MEGABYTE, 2_000)
    most = most_memory(tmp_path, budget=budget, value_bytes=value_bytes)
    stored = sum(path.stat().st_size for path in tmp_path.glob("checkpoints/*/shared/*"))
    assert stored >= 10 * budget
    assert most <= 1.1 * budget
