"""A channel whose ends are run by one thread in turn holds few records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tidegate.datastream import StreamExecutionEnvironment
from tidegate.runtime.task.credit import LOCAL

SEEN: Counter[str] = Counter()
RECORDS = 100_000


def read(number: int) -> int:
    """Counts what is in front of the exchange; both functions run in a thread of the test's process."""
    SEEN["read"] += 1
    SEEN["most"] = max(SEEN["most"], SEEN["read"] - SEEN["worked off"])
    return number


def work_off(number: int) -> int:
    SEEN["worked off"] += 1
    return number


def test_a_source_is_no_further_ahead_of_a_step_in_its_thread_than_two_batches(tmp_path: Path) -> None:
    SEEN.clear()
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "parallelism.default": 1,
            "pipeline.progress": "off",
            "state.checkpoints.dir": str(tmp_path),
        }
    )
    numbers = env.from_collection(range(RECORDS)).map(read).key_by(lambda number: number % 7).map(work_off)

    assert sum(1 for _ in numbers.execute_and_collect()) == RECORDS
    assert SEEN["worked off"] == RECORDS
    assert 0 < SEEN["most"] <= 2 * LOCAL
