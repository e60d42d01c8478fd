from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tidegate.runtime.task import sorter as module
from tidegate.runtime.task.sorter import Sortable, Sorter

RECORDS = st.lists(
    st.tuples(
        st.binary(max_size=3),
        st.integers(-5, 5),
        st.integers(0, 2),
        st.binary(max_size=40),
        st.tuples() | st.tuples(st.integers(0, 3)),
    ),
    max_size=200,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=RECORDS, memory=st.sampled_from([1, 500, 3_000, 10**9]), most=st.sampled_from([2, 5, 64]))
def test_records_come_by_key_then_time_then_as_they_came(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: list[Sortable],
    memory: int,
    most: int,
) -> None:
    monkeypatch.setattr(module, "_MOST_RUNS", most)
    sorter = Sorter(tmp_path, memory)
    for record in records:
        sorter.add(record)

    assert list(sorter.sorted()) == sorted(records, key=lambda record: record[:2])
    sorter.close()


def test_what_fits_into_memory_is_not_written(tmp_path: Path) -> None:
    sorter = Sorter(tmp_path, 1_000_000)
    for number in range(100):
        sorter.add((b"key", -number, 0, b"record", ()))

    assert [time for _, time, *_ in sorter.sorted()] == list(range(-99, 1))
    assert sorter.spilled == 0


def test_memory_stays_bounded_whatever_comes(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        sorter = Sorter(tmp_path, 1_000_000)
        for number in range(60_000):
            sorter.add(((number * 7919 % 60_000).to_bytes(8, "big"), 0, 0, bytes(200), ()))
        before = b""
        for key, *_ in sorter.sorted():
            assert key > before
            before = key
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    sorter.close()

    assert sorter.spilled >= 55_000
    assert peak < 12_000_000 < 60_000 * 400
