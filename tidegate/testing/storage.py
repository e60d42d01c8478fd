"""Conformance kits for checkpoint storages: `StorageSuite` for all, `SharedStorageSuite` for storages that processes
share, `DirectoryStorageSuite` for storages in a local directory.

    class TestMyStorage(SharedStorageSuite):
        @pytest.fixture
        def storage(self, tmp_path: Path) -> CheckpointStorage:
            return MyStorage(tmp_path)

A storage is reopened by unpickling its description, as in another process.
"""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidegate.backends.spi import Blobs, CheckpointStorage, Decisions, StoredChunk, SupportsMode
from tidegate.backends.storage.files import StorageFiles
from tidegate.errors import StateCorruptError

__all__ = ["DirectoryStorageSuite", "SharedStorageSuite", "StorageSuite", "count_up"]

THREADS = 4
ROUNDS = 20


class StorageSuite:
    """The clauses of a checkpoint storage; subclass it and provide the fixture `storage`."""

    @pytest.fixture
    def storage(self) -> CheckpointStorage:
        """The storage under test, empty."""
        raise NotImplementedError("a storage suite needs a fixture named storage")

    @pytest.fixture
    def blobs(self, storage: CheckpointStorage) -> Blobs:
        """Its files."""
        return storage.blobs

    @pytest.fixture
    def decisions(self, storage: CheckpointStorage) -> Decisions:
        """Its decisions."""
        return decisions_of(storage)

    def test_files_are_there_after_reopening(self, storage: CheckpointStorage) -> None:
        """When `put` has returned, the file is complete for every process that opens the storage."""
        storage.blobs.put("run/shared/one", b"1" * 100_000)
        with again(storage).blobs.open("run/shared/one") as file:
            assert file.read() == b"1" * 100_000

    def test_local_files_are_copied(self, blobs: Blobs, tmp_path: Path) -> None:
        """`put` also accepts a path and does not need the file afterwards."""
        source = tmp_path / "source"
        source.write_bytes(b"content")
        blobs.put("a/b/c", source)
        source.write_bytes(b"changed")
        with blobs.open("a/b/c") as file:
            assert file.read() == b"content"

    def test_putting_again_replaces(self, blobs: Blobs) -> None:
        """A repeated `put`, as after a crash, is allowed."""
        blobs.put("name", b"first, longer")
        blobs.put("name", b"second")
        with blobs.open("name") as file:
            assert file.read() == b"second"

    def test_missing_file_is_corrupt_state(self, blobs: Blobs) -> None:
        """Opening a missing file raises StateCorruptError with its name."""
        with pytest.raises(StateCorruptError, match=r"nothing.*does not exist"):
            blobs.open("nothing")

    def test_list_is_sorted_and_by_prefix(self, blobs: Blobs) -> None:
        """`list` returns the names that start with the prefix, whether it ends at a `/` or not."""
        for name in ("run-2/a", "run-1/shared/b", "run-1/a", "run-10/a"):
            blobs.put(name, b"")
        assert blobs.list("run-1/") == ["run-1/a", "run-1/shared/b"]
        assert blobs.list("run-1") == ["run-1/a", "run-1/shared/b", "run-10/a"]
        assert blobs.list("") == ["run-1/a", "run-1/shared/b", "run-10/a", "run-2/a"]
        assert blobs.list("other/") == []

    def test_delete_is_idempotent(self, blobs: Blobs) -> None:
        """Deleting a file removes it; an unknown name is ignored."""
        blobs.put("run/a", b"")
        blobs.put("run/b", b"")
        for _ in range(2):
            blobs.delete(["run/a", "run/unknown", "other/unknown"])
        assert blobs.list("run/") == ["run/b"]
        blobs.delete(["run/b"])
        blobs.put("run/c", b"")
        assert blobs.list("run/") == ["run/c"]

    def test_files_are_written_by_many_threads(self, blobs: Blobs) -> None:
        """Threads may put, list and delete in the same folders at the same time."""

        def work(thread: int) -> None:
            for number in range(ROUNDS):
                name = f"folder/{number}/{thread}"
                blobs.put(name, b"x")
                assert name in blobs.list(f"folder/{number}/")
                blobs.delete([name])

        in_threads(work)
        assert blobs.list("folder/") == []

    def test_checksum_protects_files(self, blobs: Blobs) -> None:
        """Fetching a stored file that was changed, truncated or deleted raises StateCorruptError."""
        files = StorageFiles(blobs, "run/shared", inline_threshold=0)
        chunk = files.store(b"precious content")
        assert isinstance(chunk, StoredChunk)
        assert files.fetch(chunk) == b"precious content"
        for bad in (b"precious CONTENT", b"precious", b""):
            blobs.put(chunk.name, bad)
            with pytest.raises(StateCorruptError, match=f"{chunk.name} is damaged"):
                files.fetch(chunk)
        blobs.delete([chunk.name])
        with pytest.raises(StateCorruptError, match="does not exist"):
            files.fetch(chunk)

    def test_create_happens_once(self, storage: CheckpointStorage) -> None:
        """Only the first `create` of a name succeeds, also after reopening; its content is kept."""
        assert decisions_of(storage).create("chk-1/_settled", b"mine")
        for decisions in (decisions_of(storage), decisions_of(again(storage))):
            assert not decisions.create("chk-1/_settled", b"yours")
            found = decisions.read("chk-1/_settled")
            assert found is not None
            assert found.data == b"mine"

    def test_created_names_are_files(self, storage: CheckpointStorage) -> None:
        """Created names are listed and deleted like files, because retention treats them the same."""
        decisions_of(storage).create("run/chk-1/_settled", b"")
        assert storage.blobs.list("run/chk-1/") == ["run/chk-1/_settled"]
        storage.blobs.delete(["run/chk-1/_settled"])
        assert decisions_of(storage).read("run/chk-1/_settled") is None

    def test_swap_needs_the_current_tag(self, decisions: Decisions) -> None:
        """`swap` succeeds only with the current tag; None means that the name does not exist."""
        assert decisions.read("latest") is None
        assert not decisions.swap("latest", "0", b"too early")
        assert decisions.swap("latest", None, b"one")
        assert not decisions.swap("latest", None, b"again")
        seen = decisions.read("latest")
        assert seen is not None
        assert decisions.swap("latest", seen.tag, b"two")
        assert not decisions.swap("latest", seen.tag, b"late")
        newest = decisions.read("latest")
        assert newest is not None
        assert newest.data == b"two"
        assert newest.tag != seen.tag

    def test_create_and_swap_share_the_name(self, decisions: Decisions) -> None:
        """A created name can be swapped; a swapped name cannot be created."""
        assert decisions.create("name", b"one")
        seen = decisions.read("name")
        assert seen is not None
        assert decisions.swap("name", seen.tag, b"two")
        assert not decisions.create("name", b"three")

    def test_old_tags_stay_old(self, decisions: Decisions) -> None:
        """An old tag never becomes current again."""
        tags: list[str | None] = [None]
        for number in range(3 * ROUNDS):
            assert decisions.swap("latest", tags[-1], b"%d" % number)
            seen = decisions.read("latest")
            assert seen is not None
            assert seen.tag not in tags
            tags.append(seen.tag)
        assert not any(decisions.swap("latest", tag, b"late") for tag in tags[:-1])
        newest = decisions.read("latest")
        assert newest is not None
        assert newest.data == b"%d" % (3 * ROUNDS - 1)

    def test_names_are_independent(self, decisions: Decisions) -> None:
        """Names with a common prefix are independent."""
        for name in ("a/latest", "a/latest-2", "b/latest"):
            assert decisions.swap(name, None, name.encode())
        found = [decisions.read(name) for name in ("a/latest", "a/latest-2", "b/latest", "latest")]
        assert [item.data if item else None for item in found] == [
            b"a/latest", b"a/latest-2", b"b/latest", None,
        ]  # fmt: skip

    def test_one_thread_creates(self, storage: CheckpointStorage) -> None:
        """If many threads create a name at the same time, exactly one succeeds."""
        for number in range(ROUNDS):
            start = threading.Barrier(THREADS)

            def work(thread: int, name: str = f"chk-{number}", start: threading.Barrier = start) -> bool:
                start.wait()
                return decisions_of(again(storage)).create(name, b"%d" % thread)

            wins = in_threads(work)
            found = decisions_of(storage).read(f"chk-{number}")
            assert found is not None
            assert [thread for thread, won in enumerate(wins) if won] == [int(found.data)]

    def test_one_thread_swaps(self, storage: CheckpointStorage) -> None:
        """If many threads swap the same tag, exactly one succeeds, and readers see its content."""
        tag = None
        for number in range(ROUNDS):
            start = threading.Barrier(THREADS)

            def work(thread: int, tag: str | None = tag, start: threading.Barrier = start) -> bool:
                start.wait()
                return decisions_of(again(storage)).swap("latest", tag, b"%d" % thread)

            wins = in_threads(work)
            found = decisions_of(storage).read("latest")
            assert found is not None
            assert [thread for thread, won in enumerate(wins) if won] == [int(found.data)], f"round {number}"
            tag = found.tag

    def test_readers_see_whole_decisions(self, storage: CheckpointStorage) -> None:
        """Concurrent readers see complete decisions, in order."""
        done = threading.Event()

        def watch() -> list[int]:
            decisions, seen = decisions_of(again(storage)), []
            while not done.is_set():
                found = decisions.read("latest")
                if found is not None:
                    number, _, rest = found.data.partition(b" ")
                    assert rest == number * 500
                    seen.append(int(number))
            return seen

        with ThreadPoolExecutor(1) as pool:
            watcher = pool.submit(watch)
            tag = None
            for number in range(3 * ROUNDS):
                assert decisions_of(storage).swap("latest", tag, b"%d " % number + b"%d" % number * 500)
                found = decisions_of(storage).read("latest")
                tag = found.tag if found else None
            done.set()
            seen = watcher.result()
        assert seen == sorted(seen)


class SharedStorageSuite(StorageSuite):
    """A storage that several processes share; its description must be importable by another process."""

    def test_files_are_there_for_another_process(self, storage: CheckpointStorage) -> None:
        """A process reads the files and decisions of another process, in both directions."""
        storage.blobs.put("run/a", b"from here")
        with process(storage, "exchange") as child:
            answer, _ = child.communicate(timeout=60)
        assert answer == b"from here"
        with storage.blobs.open("run/b") as file:
            assert file.read() == b"from there"

    def test_one_process_swaps(self, storage: CheckpointStorage) -> None:
        """Processes that increment a counter by `swap` at the same time neither lose nor repeat an increment."""
        with process(storage, "count") as one, process(storage, "count") as two:
            wins = [child.communicate(timeout=60)[0].split() for child in (one, two)]
        assert sorted(int(win) for won in wins for win in won) == list(range(2 * ROUNDS))
        found = decisions_of(storage).read("counter")
        assert found is not None
        assert int(found.data) == 2 * ROUNDS


class DirectoryStorageSuite(SharedStorageSuite):
    """A storage with local files below the fixture `directory`, which the storage must create."""

    @pytest.fixture
    def directory(self) -> Path:
        """The directory of the storage; it does not exist yet."""
        raise NotImplementedError("a suite of a storage in a directory needs a fixture named directory")

    def test_new_files_are_private(self, storage: CheckpointStorage, directory: Path) -> None:
        """New directories are 0700 and new files 0600, even if the umask allows more."""
        with umask(0):
            fill(storage)
        assert modes_of(directory) == {"directories": {0o700}, "files": {0o600}}

    def test_with_mode_sets_the_mode_of_new_files(self, storage: CheckpointStorage, directory: Path) -> None:
        """`with_mode` sets the mode of new directories, and of files without x, even if the umask allows less."""
        assert isinstance(storage, SupportsMode), "a storage in a directory must implement SupportsMode"
        with umask(0o077):
            fill(again(storage.with_mode(0o770)))
        assert modes_of(directory) == {"directories": {0o770}, "files": {0o660}}

    def test_a_directory_that_exists_keeps_its_mode(
        self, storage: CheckpointStorage, directory: Path
    ) -> None:
        """An existing root keeps its owner and mode."""
        directory.mkdir(parents=True)
        directory.chmod(0o755)
        fill(storage)
        assert stat.S_IMODE(directory.stat().st_mode) == 0o755
        assert modes_of(directory / "run") == {"directories": {0o700}, "files": {0o600}}


def count_up(decisions: Decisions, steps: int, won: Callable[[int], object]) -> None:
    """Increment a counter by `swap` `steps` times; `won` gets each number that this caller has replaced."""
    while steps:
        seen = decisions.read("counter")
        number = int(seen.data) if seen is not None else 0
        if decisions.swap("counter", seen.tag if seen is not None else None, b"%d" % (number + 1)):
            won(number)
            steps -= 1


def again(storage: CheckpointStorage) -> CheckpointStorage:
    """The storage, reopened from its description."""
    opened: CheckpointStorage = pickle.loads(pickle.dumps(storage))  # noqa: S301  # our own bytes
    return opened


def decisions_of(storage: CheckpointStorage) -> Decisions:
    """The decisions of a storage, which must support them."""
    decisions = storage.decisions
    assert decisions is not None, (
        f"{storage.url} does not support decisions; give it decisions or do not use this suite"
    )
    return decisions


@contextmanager
def umask(value: int) -> Iterator[None]:
    """Set the umask of this process."""
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def fill(storage: CheckpointStorage) -> None:
    """Write one file of each kind."""
    storage.blobs.put("run/shared/one", b"content")
    storage.blobs.put("run/shared/one", b"other content")
    storage.blobs.reserve("run/taskowned")
    decisions = decisions_of(storage)
    decisions.create("run/chk-1/_settled", b"")
    decisions.swap("run/latest", None, b"one")
    seen = decisions.read("run/latest")
    decisions.swap("run/latest", seen.tag if seen is not None else None, b"two")


def modes_of(directory: Path) -> dict[str, set[int]]:
    """The modes of a directory and of everything below it."""
    found: dict[str, set[int]] = {"directories": set(), "files": set()}
    for path in (directory, *directory.rglob("*")):
        found["directories" if path.is_dir() else "files"].add(stat.S_IMODE(path.stat().st_mode))
    return found


def in_threads(work: Callable[[int], object]) -> list[object]:
    """Run `work` in several threads at once; their results in order."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, range(THREADS)))


def process(storage: CheckpointStorage, task: str) -> subprocess.Popen[bytes]:
    """Start another process that uses the storage."""
    command = [sys.executable, "-P", "-m", "tidegate.testing.storage", task, pickle.dumps(storage).hex()]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def main(task: str, description: str) -> Iterator[bytes]:
    """Entry point of the other process; yields its output."""
    storage: CheckpointStorage = pickle.loads(bytes.fromhex(description))  # noqa: S301  # from our parent
    if task == "exchange":
        storage.blobs.put("run/b", b"from there")
        with storage.blobs.open("run/a") as file:
            yield file.read()
    else:
        won: list[int] = []
        count_up(decisions_of(storage), ROUNDS, won.append)
        yield b" ".join(b"%d" % number for number in won)


if __name__ == "__main__":
    sys.stdout.buffer.writelines(main(*sys.argv[1:]))
