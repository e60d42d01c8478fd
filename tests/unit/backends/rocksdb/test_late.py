"""What the database gets later than it was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.backends.rocksdb import RocksDBOptions
from tidegate.backends.rocksdb._client import RocksStore
from tidegate.backends.rocksdb.late import LateWrites
from tidegate.backends.spi import Entry
from tidegate.errors import StateFormatError

WIDE = b"\xff"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RocksStore]:
    opened = RocksStore(tmp_path / "db", RocksDBOptions())
    yield opened
    opened.close()


def test_what_was_written_is_read_before_and_after_the_database_has_it(store: RocksStore) -> None:
    late = LateWrites(store, 1_000_000)
    late.write([(b"a", b"1"), (b"b", b""), (b"c", b"3")])
    late.write([(b"c", None)])
    wanted = [b"1", b"", None, None]
    assert late.get_many([b"a", b"b", b"c", b"d"]) == wanted
    assert list(store.items(b"", WIDE)) == []
    late.flush()
    assert late.get_many([b"a", b"b", b"c", b"d"]) == wanted
    assert list(store.items(b"", WIDE)) == [(b"a", b"1"), (b"b", b"")]


def test_what_waits_hides_what_the_database_has(store: RocksStore) -> None:
    late = LateWrites(store, 1_000_000)
    late.write([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    late.flush()
    late.write([(b"b", b"2"), (b"c", None)])
    assert late.get_many([b"c", b"a", b"b"]) == [None, b"1", b"2"]


def test_the_entries_that_wait_longest_go_first_when_there_are_too_many(store: RocksStore) -> None:
    late = LateWrites(store, 400_000)
    numbered = [(b"%06d" % number, b"x" * 20) for number in range(4_000)]
    for first in range(0, 4_000, 100):
        late.write(numbered[first : first + 100])
    written = list(store.items(b"", WIDE))
    assert 1_500 < len(written) < 2_500
    assert written == numbered[: len(written)]
    assert late.get_many([at for at, _ in numbered]) == [value for _, value in numbered]


def test_an_entry_that_is_written_again_and_again_reaches_the_database_once(
    store: RocksStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[Entry] = []
    monkeypatch.setattr(RocksStore, "write", lambda _, some: reached.extend(some))
    late = LateWrites(store, 1_000_000)
    for number in range(50):
        late.write([(b"%03d" % key, b"%d" % number) for key in range(100)])
    late.flush()
    assert reached == [(b"%03d" % key, b"49") for key in range(100)]


def test_entries_are_refused_together_with_one_that_is_too_large(
    store: RocksStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.backends.rocksdb._client.MAX_ENTRY_BYTES", 1_000)
    late = LateWrites(store, 1_000_000)
    with pytest.raises(StateFormatError, match="an entry is too large for RocksDB; got 1001 bytes"):
        late.write([(b"a", b"1"), (b"b", b"x" * 1_000)])
    assert late.get_many([b"a", b"b"]) == [None, None]
