from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import UnavailableError
from tidegate.runtime.task.spill import SpillFile


def test_blocks_come_back_from_any_place_while_others_are_written(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path)
    spill.append(b"one")
    start = spill.size
    spill.append(b"")
    spill.append(b"three" * 10_000)
    end = spill.size
    reading = spill.blocks(0, end)

    assert next(reading) == b"one"
    spill.append(b"four")
    assert list(spill.blocks(start, end)) == [b"", b"three" * 10_000]
    assert list(reading) == [b"", b"three" * 10_000]
    spill.close()


def test_nothing_is_left_in_the_directory(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path)
    spill.append(b"record")

    assert list(tmp_path.iterdir()) == []
    spill.close()


def test_a_directory_that_takes_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UnavailableError, match=r"records cannot be spilled to .*/nowhere: .*; free space there or set TMPDIR"
    ):
        SpillFile(tmp_path / "nowhere")


def test_a_file_that_ends_early_is_noticed(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path)
    spill.append(b"record")

    with pytest.raises(UnavailableError, match=r"ends early; got 0 bytes at 10; expected 4; check that disk"):
        list(spill.blocks(0, spill.size + 1))
    spill.close()
