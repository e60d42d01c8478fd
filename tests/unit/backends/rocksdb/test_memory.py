"""What RocksDB may take of a process's memory."""

from __future__ import annotations

import os
import re
from dataclasses import astuple
from pathlib import Path

import pytest

from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.rocksdb.memory import container_bytes, default_memory, shares
from tidegate.backends.spi import BackendContext
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.keys import KeyGroupRange

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes"])
@pytest.mark.parametrize(
    ("limit", "expected"),
    [("1048576\n", 1_048_576), ("max\n", MACHINE), (f"{2**63 - 4096}\n", MACHINE)],
    ids=["limited", "unlimited", "more than there is"],
)
def test_the_container_tells_how_much_memory_there_is(
    tmp_path: Path, name: str, limit: str, expected: int
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(limit)
    assert container_bytes(tmp_path) == expected


def test_without_control_groups_it_is_the_memory_of_the_machine(tmp_path: Path) -> None:
    assert container_bytes(tmp_path) == MACHINE


def test_processes_on_all_cores_take_no_more_than_a_quarter_by_default() -> None:
    assert 0 < default_memory() * len(os.sched_getaffinity(0)) <= container_bytes() // 4


def test_shares_leave_two_fifths_for_what_nobody_counts() -> None:
    memory = shares(64_000_000)
    assert sum(astuple(memory)) <= 64_000_000 * 3 // 5


def test_databases_of_one_process_share_their_memory(tmp_path: Path) -> None:
    files = StorageFiles(MemoryStorage().blobs, "run", inline_threshold=0)
    shared = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        RocksDBBackend().open(None, KeyGroupRange(0, 8), BackendContext(tmp_path / name, files, {})).close()
        log = (tmp_path / name / "db" / "LOG").read_text()
        shared.add(tuple(re.findall(r"(?:block_cache|write_buffer_manager): (0x[0-9a-f]+)", log)))
        memory = shares(default_memory())
        assert f"capacity : {memory.blocks + memory.writes}\n" in log
    assert len(shared) == 1
    assert len(shared.pop()) == 2
