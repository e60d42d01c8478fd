"""Rows on the disk: all of them come back, equal fingerprints together, and nothing stays behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import UnavailableError
from tidegate.runtime.audit import buckets as module
from tidegate.runtime.audit.buckets import Buckets, fingerprint_of


def test_rows_come_back_with_their_equals_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HELD_BYTES", 10_000)
    with Buckets(tmp_path) as buckets:
        for number in range(6_000):
            buckets.add(str(number % 3_000).encode(), number % 3, number % 7, number << 20)
        written = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
        lists = list(buckets.each())

    assert written > 6_000 * 29 - 10_000, "memory holds little of it"
    rows = [row for rows in lists for row in rows]
    assert sorted(rows) == sorted(
        (fingerprint_of(str(n % 3_000).encode()), n % 3, n % 7, n << 20) for n in range(6_000)
    )
    homes = [{row[0] for row in rows} for rows in lists]
    assert sum(map(len, homes)) == len(set().union(*homes)) == 3_000
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_takes_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UnavailableError,
        match=r"cannot write files of the audit to .*/none: No such file or directory; name another directory",
    ):
        Buckets(tmp_path / "none")


def test_a_disk_that_gives_out_is_named(tmp_path: Path) -> None:
    with Buckets(tmp_path) as buckets:
        buckets.add(b"7", 0, 0, 0)
        (home,) = tmp_path.iterdir()
        home.rmdir()
        with pytest.raises(
            UnavailableError, match=r"cannot write a part of the audit to .*: No such file or directory; free"
        ):
            list(buckets.each())
