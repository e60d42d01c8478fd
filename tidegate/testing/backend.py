"""Conformance kit for state backends: subclass a suite, provide one fixture, get every clause as a test.

    class TestMyBackend(BackendSuite):
        @pytest.fixture
        def backend(self) -> Backend:
            return MyBackend()

Every clause opens a new backend. A crash is simulated as the framework sees it: the materialisation and its directory
are discarded, and a new one is opened from a handle.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tidegate.backends.keyed.address import ROWS, address, group_of
from tidegate.backends.spi import (
    Address,
    Backend,
    BackendContext,
    BaseHandle,
    Entry,
    Materialisation,
    StoredChunk,
)
from tidegate.backends.storage.files import StorageFiles
from tidegate.backends.storage.memory import MemoryStorage
from tidegate.errors import StateCorruptError, StateFormatError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.testing.collection_model import CollectionModel
from tidegate.testing.expiring_model import ExpiringModel
from tidegate.testing.keyed_machine import KeyedMachine
from tidegate.testing.keyed_model import KeyedModel
from tidegate.testing.ordered_model import OrderedModel
from tidegate.testing.outage import OutageClauses

__all__ = ["BackendBench", "BackendSuite"]

ALL = KeyGroupRange(0, 8)
FIRST, LAST = b"\x00\x00", b"\x00\x08"


@dataclass
class BackendBench:
    """Opens materialisations over one storage and closes them again."""

    backend: Backend
    root: Path
    inline_threshold: int = 0
    storage: MemoryStorage = field(default_factory=MemoryStorage)
    _opened: list[Materialisation] = field(default_factory=list)
    _directories: int = 0

    @property
    def files(self) -> StorageFiles:
        """The files of snapshots."""
        return StorageFiles(self.storage.blobs, "kit", inline_threshold=self.inline_threshold)

    def context(self) -> BackendContext:
        """A context with a new, empty directory."""
        self._directories += 1
        directory = self.root / str(self._directories)
        directory.mkdir()
        return BackendContext(directory, self.files, {})

    def open(self, base: BaseHandle | None = None, key_groups: KeyGroupRange = ALL) -> Materialisation:
        """Open a materialisation; it is closed at the end of the test."""
        opened = self.backend.open(base, key_groups, self.context())
        self._opened.append(opened)
        return opened

    def filled(self, entries: Iterable[Entry]) -> Materialisation:
        """A new materialisation with entries."""
        opened = self.open()
        opened.apply(list(entries))
        return opened

    def base(
        self, opened: Materialisation, number: int = 1, confirmed: BaseHandle | None = None
    ) -> BaseHandle:
        """Cut and publish a base."""
        cut = opened.cut(CheckpointId(number))
        try:
            return cut.publish(self.files, confirmed)
        finally:
            cut.release()

    def keep_only(self, *bases: BaseHandle) -> None:
        """Delete every file that none of these bases refers to, as the coordinator's registry does."""
        kept = {chunk.name for base in bases for _, chunk in base.files if isinstance(chunk, StoredChunk)}
        blobs = self.storage.blobs
        blobs.delete([name for name in blobs.list("") if name not in kept])

    def close(self) -> None:
        """Close everything that was opened."""
        for opened in self._opened:
            opened.close()


class BackendSuite(OutageClauses):
    """The clauses of a state backend; subclass it and provide the fixture `backend`."""

    @pytest.fixture
    def backend(self) -> Backend:
        """The backend under test."""
        raise NotImplementedError("a backend suite needs a fixture named backend")

    @pytest.fixture
    def bench(self, backend: Backend, tmp_path: Path) -> Iterator[BackendBench]:
        """Opens materialisations for the clauses."""
        bench = BackendBench(backend, tmp_path)
        yield bench
        bench.close()

    def test_description_is_picklable(self, backend: Backend) -> None:
        """A description is sent to other processes."""
        assert pickle.loads(pickle.dumps(backend)).name == backend.name  # noqa: S301  # our own bytes

    def test_get_many_answers_in_order(self, bench: BackendBench) -> None:
        """`get_many` returns the bytes of each address in the order requested, None for missing ones."""
        opened = bench.filled(content(3).items())
        addresses = [*reversed(content(3)), at(7, b"unknown"), at(0, b"k0")]
        assert opened.get_many(addresses) == [b"v2", b"v1", b"v0", None, b"v0"]
        assert opened.get_many([]) == []

    def test_apply_keeps_the_last_entry_of_an_address(self, bench: BackendBench) -> None:
        """Entries are written in order; None removes; an empty value is a value."""
        one, two, three = at(0, b"one"), at(0, b"two"), at(0, b"three")
        opened = bench.filled([(one, b"1"), (one, None), (two, None), (two, b"2"), (three, b"")])
        assert opened.get_many([one, two, three]) == [None, b"2", b""]
        assert everything(opened) == {two: b"2", three: b""}

    def test_apply_twice_changes_nothing(self, bench: BackendBench) -> None:
        """Applying the same entries again has no effect, as after a crash."""
        entries: list[Entry] = [*content(5).items(), (at(1, b"k1"), None)]
        opened = bench.filled(entries)
        before = everything(opened)
        opened.apply(iter(entries))
        assert everything(opened) == before
        opened.cut(CheckpointId(1)).release()
        opened.apply(iter(entries))
        assert everything(opened) == before

    def test_scan_is_ascending_and_half_open(self, bench: BackendBench) -> None:
        """`scan` returns first <= address < last in ascending order of bytes."""
        entries = content(40)
        opened = bench.filled(reversed(entries.items()))
        addresses = sorted(entries)
        found = [address for address, _ in opened.scan(addresses[5], addresses[20])]
        assert found == addresses[5:20]
        assert list(opened.scan(addresses[5], addresses[5])) == []

    def test_scan_in_reverse_is_descending_over_the_same_range(self, bench: BackendBench) -> None:
        """`scan` in reverse returns the same entries as forwards, first <= address < last, in descending order."""
        entries = content(40)
        opened = bench.filled(entries.items())
        addresses = sorted(entries)
        gone = addresses[18]
        opened.apply([(gone, None), (addresses[7], b"changed")])
        for first, last in (
            (addresses[5], addresses[20]),
            (FIRST, LAST),
            (gone, addresses[19]),
            (LAST, FIRST),
        ):
            forwards = list(opened.scan(first, last))
            assert list(opened.scan(first, last, reverse=True)) == forwards[::-1]
        found = [address for address, _ in opened.scan(addresses[5], addresses[20], reverse=True)]
        assert found == [at for at in addresses[19:4:-1] if at != gone]

    def test_a_limit_counts_existing_entries(self, bench: BackendBench) -> None:
        """With `limit`, `scan` returns the first `limit` entries of the range; removed ones do not count."""
        entries = content(40)
        opened = bench.filled(entries.items())
        list(opened.scan(FIRST, LAST))
        addresses = sorted(entries)
        opened.apply([(address, None) for address in (*addresses[:10], *addresses[-10:])])
        for limit in (0, 1, 7, 20, 50):
            found = [address for address, _ in opened.scan(FIRST, LAST, limit=limit)]
            assert found == addresses[10:-10][:limit]
            found = [address for address, _ in opened.scan(FIRST, LAST, reverse=True, limit=limit)]
            assert found == addresses[-11:9:-1][:limit]

    def test_scan_sees_what_was_written_since_the_last_one(self, bench: BackendBench) -> None:
        """Each scan sees all entries added, changed and removed before it, and none of those removed."""
        opened, expected = bench.open(), dict[Address, bytes | None]()
        for step in range(12):
            changed: dict[Address, bytes | None] = {
                at(number % 8, b"k%d" % (number * 7 % 400)): b"%d" % step if number % 3 else None
                for number in range(step * 31, step * 31 + 400 // (step % 4 * 20 + 1))
            }
            opened.apply(changed.items())
            expected.update(changed)
            alive = sorted((address, value) for address, value in expected.items() if value is not None)
            assert list(opened.scan(FIRST, LAST)) == alive
            if step % 5 == 2:
                opened.cut(CheckpointId(step + 1)).release()

    def test_scan_sees_the_moment_it_started(self, bench: BackendBench) -> None:
        """The caller may `apply` while iterating; the scan still returns the entries at its start."""
        entries = content(20)
        opened = bench.filled(entries.items())
        seen = {}
        for found, value in opened.scan(FIRST, LAST):
            seen[found] = value
            opened.apply([(found, None), (at(7, b"new" + found), b"x")])
        assert seen == entries

    def test_scan_keeps_its_bounds_while_the_caller_works(self, bench: BackendBench) -> None:
        """Actions of the caller between two steps, such as using memory, do not end or extend an iteration."""
        opened = bench.filled(content(400).items())
        first, last = b"\x00\x01", b"\x00\x03"
        seen, junk = [], []
        for found, _ in opened.scan(first, last):
            seen.append(found)
            junk.append([bytes([number]) * len(last) for number in range(64)])
        assert seen == sorted(found for found in content(400) if first <= found < last)

    def test_cut_does_not_see_later_writes(self, bench: BackendBench) -> None:
        """A cut holds the content at its barrier, regardless of later writes and removals before it is published."""
        entries = content(20)
        opened = bench.filled(entries.items())
        cut = opened.cut(CheckpointId(1))
        opened.apply([(at(0, b"k0"), b"changed"), (at(1, b"k1"), None), (at(7, b"new"), b"x")])
        base = cut.publish(bench.files, None)
        cut.release()
        assert everything(bench.open(base)) == entries

    def test_owner_sees_its_own_writes_over_open_cuts(self, bench: BackendBench) -> None:
        """Writes and removals after a cut are visible at once, while the cut is open and after its release."""
        opened = bench.filled(content(3).items())
        cuts = [opened.cut(CheckpointId(1))]
        opened.apply([(at(0, b"k0"), None), (at(1, b"k1"), b"new")])
        cuts.append(opened.cut(CheckpointId(2)))
        opened.apply([(at(2, b"k2"), None)])
        expected = {at(1, b"k1"): b"new"}
        assert everything(opened) == expected
        for cut in cuts:
            cut.release()
            cut.release()
        opened.apply([])
        assert everything(opened) == expected

    def test_cuts_are_published_in_any_order(self, bench: BackendBench) -> None:
        """Several cuts may be open; each keeps its own content."""
        opened, cuts, expected = bench.open(), [], []
        for number in range(3):
            opened.apply([(at(number, b"k%d" % number), b"v"), (at(0, b"k0"), b"%d" % number)])
            expected.append(everything(opened))
            cuts.append(opened.cut(CheckpointId(number + 1)))
        bases = {}
        for number in (2, 0, 1):
            bases[number] = cuts[number].publish(bench.files, None)
            cuts[number].release()
        assert [everything(bench.open(bases[number])) for number in range(3)] == expected

    def test_publish_runs_beside_the_owner(self, bench: BackendBench) -> None:
        """`publish` and `release` may run in another thread while the owner reads and writes."""
        entries = content(500)
        opened = bench.filled(entries.items())
        cut, bases = opened.cut(CheckpointId(1)), []
        started = threading.Event()

        def publish() -> None:
            started.set()
            bases.append(cut.publish(bench.files, None))
            cut.release()

        thread = threading.Thread(target=publish)
        thread.start()
        started.wait()
        for number in range(200):
            opened.apply([(at(1, b"k%d" % number), None), (at(2, b"w%d" % number), b"x")])
        thread.join()
        assert everything(bench.open(bases[0])) == entries

    def test_restore_equals_the_cut(self, bench: BackendBench) -> None:
        """Opening a base restores exactly its entries, also when no other file of the writer exists."""
        entries = content(300)
        opened = bench.filled([*entries.items(), (at(0, b"gone"), b"x"), (at(0, b"gone"), None)])
        base = bench.base(opened)
        bench.keep_only(base)
        again = bench.open(base)
        assert everything(again) == entries
        assert again.get_many([at(0, b"k0"), at(0, b"gone")]) == [b"v0", None]

    def test_restored_state_can_be_written_and_cut(self, bench: BackendBench) -> None:
        """After a crash the next base holds the restored entries and those applied since."""
        base = bench.base(bench.filled(content(50).items()))
        again = bench.open(base)
        again.apply([(at(0, b"k0"), None), (at(1, b"new"), b"x")])
        expected = {**content(50), at(1, b"new"): b"x"}
        del expected[at(0, b"k0")]
        assert everything(bench.open(bench.base(again, 2, confirmed=base))) == expected

    def test_open_takes_only_its_key_groups(self, bench: BackendBench) -> None:
        """Opening with a key-group range excludes other key groups, also from later bases."""
        base = bench.base(bench.filled(content(64).items()))
        part = bench.open(base, KeyGroupRange(2, 5))
        expected = {address: value for address, value in content(64).items() if 2 <= group_of(address) < 5}
        assert everything(part) == expected
        assert dict(bench.backend.read(bench.base(part, 2), bench.context())) == expected

    def test_read_gives_all_entries_in_order(self, bench: BackendBench) -> None:
        """`read` returns every entry of a base in ascending order, for other backends and tools."""
        entries = content(64)
        base = bench.base(bench.filled(entries.items()))
        assert list(bench.backend.read(base, bench.context())) == sorted(entries.items())

    def test_empty_base_restores_to_nothing(self, bench: BackendBench) -> None:
        """An empty base can be restored."""
        base = bench.base(bench.open())
        assert everything(bench.open(base)) == {}
        assert list(bench.backend.read(base, bench.context())) == []

    def test_base_refers_to_no_file_that_was_not_confirmed(self, bench: BackendBench) -> None:
        """Files of a declined checkpoint are deleted; a later base must not count on them."""
        opened = bench.filled(content(50).items())
        bench.base(opened, 1)
        bench.keep_only()
        opened.apply([(at(0, b"more"), b"x")])
        base = bench.base(opened, 2, confirmed=None)
        bench.keep_only(base)
        assert everything(bench.open(base)) == {**content(50), at(0, b"more"): b"x"}

    def test_base_after_a_declined_one_builds_on_the_confirmed(self, bench: BackendBench) -> None:
        """After a declined checkpoint, a base needs only its own files and those of the confirmed base."""
        opened = bench.filled(content(50).items())
        confirmed = bench.base(opened, 1)
        opened.apply([(at(0, b"declined"), b"x")])
        bench.base(opened, 2, confirmed)
        bench.keep_only(confirmed)
        opened.apply([(at(0, b"last"), b"y")])
        third = bench.base(opened, 3, confirmed)
        bench.keep_only(third)
        expected = {**content(50), at(0, b"declined"): b"x", at(0, b"last"): b"y"}
        assert everything(bench.open(third)) == expected

    def test_confirmed_base_stays_until_others_delete_it(self, bench: BackendBench) -> None:
        """Only the coordinator deletes files: a later base does not change an earlier one."""
        opened = bench.filled(content(50).items())
        confirmed = bench.base(opened, 1)
        for number in (2, 3):
            opened.apply([(address, None) for address in content(50)])
            bench.base(opened, number, confirmed)
        assert everything(bench.open(confirmed)) == content(50)
        assert dict(bench.backend.read(confirmed, bench.context())) == content(50)

    def test_damaged_file_is_refused(self, bench: BackendBench) -> None:
        """A changed, truncated or missing file raises StateCorruptError and never returns wrong entries."""
        base = bench.base(bench.filled(content(50).items()))
        blobs = bench.storage.blobs
        for name in blobs.list(""):
            with blobs.open(name) as file:
                good = file.read()
            for bad in (good[:-1], bytes([good[0] ^ 1]) + good[1:]):
                blobs.put(name, bad)
                with pytest.raises(StateCorruptError, match="damaged"):
                    list(bench.backend.read(base, bench.context()))
            blobs.delete([name])
            with pytest.raises(StateCorruptError, match="does not exist"):
                bench.open(base)
            blobs.put(name, good)

    def test_newer_version_is_refused(self, bench: BackendBench) -> None:
        """A base written by a newer version raises StateFormatError."""
        base = bench.base(bench.filled(content(3).items()))
        newer = BaseHandle(base.backend, base.version + 1, base.files)
        with pytest.raises(StateFormatError, match="is newer than supported"):
            bench.open(newer)
        with pytest.raises(StateFormatError, match="is newer than supported"):
            list(bench.backend.read(newer, bench.context()))

    @pytest.mark.parametrize(
        "machine",
        [KeyedModel, CollectionModel, OrderedModel, ExpiringModel],
        ids=["values", "collections", "ordered", "expiring"],
    )
    def test_keyed_state_equals_a_model(
        self, machine: type[KeyedMachine], backend: Backend, tmp_path: Path
    ) -> None:
        """State is exact after any order of updates, in-place changes, evictions, timers, expiry, checkpoints, crashes
        and rescaling."""

        class Model(machine):  # type: ignore[misc, valid-type] # one class for each of the machines
            def __init__(self) -> None:
                super().__init__(backend, tmp_path)

        # A step makes many calls and a restart opens several databases, so there are half as many examples as elsewhere.
        examples = max(1, settings().max_examples // 2)
        run_state_machine_as_test(Model, settings=settings(max_examples=examples, stateful_step_count=25))


def at(group: int, key: bytes) -> Address:
    """An address in a key group."""
    return address(group, ROWS, key)


def content(count: int) -> dict[Address, bytes]:
    """Entries in all key groups, ascending by key group only."""
    return {at(number % 8, b"k%d" % number): b"v%d" % number for number in range(count)}


def everything(opened: Materialisation) -> Mapping[Address, bytes]:
    """All entries of a materialisation."""
    return dict(opened.scan(FIRST, LAST))
