"""Every checkpoint storage passes the kit that authors get, survives kills, and the kit catches broken ones."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pyarrow.fs
import pytest

from tidegate.backends.spi import Blobs, CheckpointStorage, Decision, Decisions
from tidegate.backends.storage import LocalStorage, MemoryStorage, open_storage
from tidegate.backends.storage._arrow import RenamedBlobs
from tidegate.backends.storage.sole import SoleDecisions
from tidegate.testing.doubles import passes
from tidegate.testing.services import S3Service
from tidegate.testing.storage import (
    DirectoryStorageSuite,
    SharedStorageSuite,
    StorageSuite,
    count_up,
    decisions_of,
)


class TestLocalStorage(DirectoryStorageSuite):
    """A directory."""

    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        return tmp_path / "not" / "yet there"

    @pytest.fixture
    def storage(self, directory: Path) -> CheckpointStorage:
        return LocalStorage(directory)


class TestMemoryStorage(StorageSuite):
    """This process's memory."""

    @pytest.fixture
    def storage(self) -> CheckpointStorage:
        return MemoryStorage()


class Sole(MemoryStorage):
    """Files, and the decisions of their one writer."""

    @property
    def decisions(self) -> Decisions:
        return SoleDecisions(self.blobs)


class TestSoleDecisions(StorageSuite):
    """Decisions on a storage that has none, within one process."""

    @pytest.fixture
    def storage(self) -> CheckpointStorage:
        return Sole()


class Renamed(CheckpointStorage):
    """What the storage in HDFS makes of a file system, here a local one."""

    def __init__(self, root: str) -> None:
        self.url = f"renamed://{root}"
        self._root = root

    @property
    def blobs(self) -> Blobs:
        return RenamedBlobs(pyarrow.fs.LocalFileSystem(), self._root, self.url)

    @property
    def decisions(self) -> Decisions:
        return SoleDecisions(self.blobs)


class TestRenamedBlobs(StorageSuite):
    """Files that get their names when they are complete, and the decisions of their one writer."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> CheckpointStorage:
        return Renamed(str(tmp_path))


@pytest.mark.service
class TestS3Storage(SharedStorageSuite):
    """A bucket of a server with the S3 protocol."""

    @pytest.fixture
    def storage(self, s3: S3Service, monkeypatch: pytest.MonkeyPatch) -> CheckpointStorage:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
        return open_storage(s3.new_bucket())


KILLS = 200
VICTIM = """
import os, signal, sys
from pathlib import Path
from tidegate.backends.storage import LocalStorage
from tidegate.testing.storage import count_up

root, log, kills = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def swap_for_ever(told):
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def won(number):
        os.write(out, b"%d\\n" % number)
        os.write(told, b"x")

    os.write(told, b"x")
    count_up(LocalStorage(root).decisions, 10**9, won)

for kill in range(kills):
    seen, told = os.pipe()
    child = os.fork()
    if child == 0:
        swap_for_ever(told)
    for _ in range(1 + kill % 3):
        os.read(seen, 1)
    for _ in range(kill % 7 * 3_000):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(seen), os.close(told)
"""


@pytest.mark.crash
def test_swaps_have_one_winner_each_while_a_rival_is_killed_again_and_again(tmp_path: Path) -> None:
    root, log = tmp_path / "root", tmp_path / "log"
    decisions = decisions_of(LocalStorage(root))
    mine: list[int] = []
    victim = subprocess.Popen([sys.executable, "-P", "-c", VICTIM, str(root), str(log), str(KILLS)])
    while victim.poll() is None:
        count_up(decisions, 1, mine.append)
    count_up(decisions, 1, mine.append)

    theirs = [int(line) for line in log.read_text().split()] if log.exists() else []
    newest = decisions.read("counter")
    assert victim.returncode == 0
    assert newest is not None
    # Every number was left by exactly one winner; a killed one may not have lived to say so.
    left = Counter([*mine, *theirs])
    assert set(left.values()) == {1}
    assert set(left) <= set(range(int(newest.data)))
    assert int(newest.data) - len(left) <= KILLS
    assert len(theirs) >= KILLS // 2
    # What the dead left behind is cleaned up by and by.
    for _ in range(10):
        count_up(decisions, 1, mine.append)
    assert len(list(root.iterdir())) < 30


class TornSwap(Decisions):
    """Looks, then writes: two writers that looked at the same time both win."""

    def __init__(self, inner: Decisions) -> None:
        self._inner = inner
        self._meeting = threading.Barrier(2, timeout=0.2)

    def create(self, name: str, data: bytes) -> bool:
        return self._inner.create(name, data)

    def read(self, name: str) -> Decision | None:
        return self._inner.read(name)

    def swap(self, name: str, old_tag: str | None, data: bytes) -> bool:
        seen = self._inner.read(name)
        if old_tag != (seen.tag if seen is not None else None):
            return False
        try:
            self._meeting.wait()
        except threading.BrokenBarrierError:
            self._meeting.reset()
        while not self._inner.swap(name, seen.tag if seen is not None else None, data):
            seen = self._inner.read(name)
        return True


class Torn(CheckpointStorage):
    """A memory storage with torn swaps."""

    def __init__(self, inner: MemoryStorage) -> None:
        self.url = inner.url
        self._inner = inner

    def __reduce__(self) -> tuple[object, ...]:
        return _same, (self.url,)

    @property
    def blobs(self) -> Blobs:
        return self._inner.blobs

    @property
    def decisions(self) -> Decisions:
        return TORN.setdefault(self.url, TornSwap(self._inner.decisions))


TORN: dict[str, TornSwap] = {}


def _same(url: str) -> Torn:
    return Torn(MemoryStorage(url.removeprefix("memory://")))


class SuiteOfTornSwaps(StorageSuite):
    @pytest.fixture
    def storage(self) -> CheckpointStorage:
        return Torn(MemoryStorage())


def test_torn_swaps_fail_their_clause() -> None:
    assert not passes(SuiteOfTornSwaps, "test_one_thread_swaps")


def test_torn_swaps_pass_clauses_about_other_things() -> None:
    assert passes(SuiteOfTornSwaps, "test_swap_needs_the_current_tag", "test_create_happens_once")


class SuiteOfFilesForAll(DirectoryStorageSuite):
    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        return tmp_path / "root"

    @pytest.fixture
    def storage(self, directory: Path) -> CheckpointStorage:
        return LocalStorage(directory, mode=None)


def test_files_that_everybody_can_read_fail_their_clause() -> None:
    assert not passes(SuiteOfFilesForAll, "test_new_files_are_private")


def test_files_that_everybody_can_read_pass_clauses_about_other_things() -> None:
    assert passes(SuiteOfFilesForAll, "test_putting_again_replaces")
