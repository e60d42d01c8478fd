from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.heap import HeapBackend, materialisation
from tidegate.backends.keyed.segment import Segment, encode_segment
from tidegate.backends.spi import BackendContext, BaseHandle, Cut, Entry, Excess, InlineChunk, StoredChunk
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.clock import SystemClock
from tidegate.errors import ConfigError, StateCorruptError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange

ALL = KeyGroupRange(0, 8)


def context(tmp_path: Path, **options: object) -> BackendContext:
    files = StorageFiles(MemoryStorage().blobs, "run", inline_threshold=0)
    return BackendContext(
        tmp_path, files, {f"state.backend.heap.{key}": value for key, value in options.items()}
    )


def test_a_base_is_inline_on_the_heap_and_a_file_on_the_filesystem(tmp_path: Path) -> None:
    where = context(tmp_path)
    kinds = []
    for backend in (HeapBackend(), FilesystemBackend()):
        opened = backend.open(None, ALL, where)
        opened.apply([(b"\0\1a", b"x")])
        [(_, chunk)] = opened.cut(CheckpointId(1)).publish(where.files, None).files
        kinds.append(type(chunk))
    assert kinds == [InlineChunk, StoredChunk]


def test_one_state_beyond_its_limit_is_told_with_a_way_out(tmp_path: Path) -> None:
    where = context(tmp_path, **{"max-state": "1 kb"})
    opened = HeapBackend().open(None, ALL, where)
    opened.apply([(b"\0\1\0\7" + key, b"x" * 400) for key in (b"a", b"b")])
    opened.apply([(b"\0\1\0\7a", b"x" * 300), (b"\0\1\0\x08a", b"x" * 800)])
    assert opened.excess() is None
    opened.apply([(b"\0\2\0\7c", b"x" * 400)])
    remedy = "raise state.backend.heap.max-state, or use backend filesystem or rocksdb"
    assert opened.excess() == Excess(state=7, size=1115, limit=1024, remedy=remedy)
    base = opened.cut(CheckpointId(1)).publish(where.files, None)
    assert HeapBackend().open(base, ALL, where).excess() == opened.excess()
    opened.apply([(b"\0\1\0\7b", None)])
    assert opened.excess() is None


def test_the_limit_is_five_megabytes_of_one_state(tmp_path: Path) -> None:
    opened = HeapBackend().open(None, ALL, context(tmp_path))
    most = 5 * 1024 * 1024 - 5
    opened.apply([(b"\0\1\0\1a", b"x" * most), (b"\0\1\0\2a", b"x" * most)])
    assert opened.excess() is None
    opened.apply([(b"\0\1\0\2a", b"x" * (most + 1))])
    excess = opened.excess()
    assert excess is not None
    assert excess.state == 2


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown option 'state\.backend\.heap\.max'"):
        HeapBackend().open(None, ALL, context(tmp_path, max=1))


def test_a_base_without_its_file_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(
        StateCorruptError, match=r"base of backend 'heap' is incomplete; got files \['other'\]"
    ):
        HeapBackend().open(BaseHandle("heap", 1, (("other", InlineChunk(b"")),)), ALL, context(tmp_path))


def test_a_damaged_inline_base_is_corrupt(tmp_path: Path) -> None:
    where = context(tmp_path)
    opened = HeapBackend().open(None, ALL, where)
    opened.apply([(b"\0\1a", b"x")])
    base = opened.cut(CheckpointId(1)).publish(where.files, None)
    [(name, chunk)] = base.files
    assert isinstance(chunk, InlineChunk)
    torn = BaseHandle("heap", 1, ((name, InlineChunk(chunk.data[:-1])),))
    with pytest.raises(StateCorruptError, match="state segment in the metadata is damaged"):
        HeapBackend().open(torn, ALL, where)


@pytest.fixture
def several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[BaseHandle, list[Entry]]:
    """A base that is written in files of one part, of two entries, or two; and what it holds."""
    monkeypatch.setattr(materialisation, "_FILE_BYTES", 40)
    monkeypatch.setattr(materialisation, "_PART", 2)
    entries: list[Entry] = [(b"\0%c%04d" % (n % 8, n), b"value %03d" % n) for n in range(50)]
    opened = HeapBackend().open(None, ALL, context(tmp_path))
    opened.apply(entries)
    return opened.cut(CheckpointId(1)).publish(context(tmp_path).files, None), sorted(entries)


def test_a_large_base_is_several_files_in_order(
    tmp_path: Path, several_files: tuple[BaseHandle, list[Entry]]
) -> None:
    base, entries = several_files
    assert [name for name, _ in base.files] == [f"{number} of 24" for number in range(1, 25)]
    assert list(HeapBackend().read(base, context(tmp_path))) == entries
    part = HeapBackend().open(base, KeyGroupRange(2, 5), context(tmp_path))
    expected = [(at, value) for at, value in entries if b"\0\2" <= at < b"\0\5"]
    assert list(part.scan(b"", b"\xff")) == expected


def test_a_base_without_one_of_its_files_is_corrupt(
    tmp_path: Path, several_files: tuple[BaseHandle, list[Entry]]
) -> None:
    base, _ = several_files
    torn = BaseHandle(base.backend, base.version, base.files[:-1])
    with pytest.raises(
        StateCorruptError, match=r"base of backend 'heap' is incomplete; got files \['1 of 24'"
    ):
        HeapBackend().open(torn, ALL, context(tmp_path))


def test_what_changed_while_a_cut_was_open_is_in_the_next_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(materialisation, "_PART", 2)
    where = context(tmp_path)
    opened = HeapBackend().open(None, ALL, where)
    opened.apply([(b"\0\1%d" % number, b"old") for number in range(5)])
    first = opened.cut(CheckpointId(1))
    opened.apply([(b"\0\1\x31", b"new"), (b"\0\1\x32", None), (b"\0\1\x39", b"more")])
    base = opened.cut(CheckpointId(2)).publish(where.files, None)
    assert dict(HeapBackend().read(first.publish(where.files, None), where)) == {
        b"\0\1%d" % number: b"old" for number in range(5)
    }
    assert dict(HeapBackend().read(base, where)) == {
        b"\0\x010": b"old",
        b"\0\x011": b"new",
        b"\0\x013": b"old",
        b"\0\x014": b"old",
        b"\0\x019": b"more",
    }


def test_a_base_of_the_first_version_is_read(tmp_path: Path) -> None:
    data = encode_segment(Segment((), [(b"\0\1a", b"x"), (b"\0\2b", b"y")]))
    base = BaseHandle("heap", 1, (("entries", InlineChunk(data)),))
    opened = HeapBackend().open(base, KeyGroupRange(2, 3), context(tmp_path))
    assert list(opened.scan(b"", b"\xff")) == [(b"\0\2b", b"y")]


class WorkingClock(SystemClock):
    """Looking at it takes two milliseconds, and a rest takes a while longer than it should."""

    def __init__(self, late_s: float) -> None:
        self.rests: list[float] = []
        self._now, self._late_s = 0.0, late_s

    def monotonic(self) -> float:
        self._now += 0.002
        return self._now

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self._now += seconds + self._late_s - 0.002


@pytest.mark.parametrize(
    ("late_s", "later"),
    [
        pytest.param(0.0, 0.000_05, id="idle"),
        pytest.param(0.003, 0.006, id="busy"),
        pytest.param(0.5, 0.01, id="overloaded"),
    ],
)
def test_an_upload_rests_the_longer_the_longer_it_waits_for_the_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late_s: float, later: float
) -> None:
    clock = WorkingClock(late_s)
    monkeypatch.setattr(materialisation, "SYSTEM_CLOCK", clock)
    monkeypatch.setattr(materialisation, "_PART", 10)
    opened = HeapBackend().open(None, ALL, context(tmp_path))
    opened.apply([(b"\0\1%d" % number, b"x") for number in range(100)])
    opened.cut(CheckpointId(1)).publish(context(tmp_path).files, None)
    assert clock.rests[0] == 0.000_05
    assert clock.rests[1:] == pytest.approx([later] * 29)


def test_memory_is_given_back_once_cuts_are_released(tmp_path: Path) -> None:
    where = context(tmp_path)
    opened = HeapBackend().open(None, ALL, where)
    for number in range(5):
        opened.apply([(b"\0\1a", b"%d" % number), (b"\0\1b", None)])
        cut = opened.cut(CheckpointId(number))
        cut.release()
    opened.apply([(b"\0\1a", None)])
    assert opened._layers == [{}]


WRITES = st.dictionaries(st.binary(max_size=2), st.none() | st.just(b"x"), max_size=5)


@given(steps=st.lists(st.one_of(WRITES, st.sampled_from(["cut", "release"])), max_size=20))
def test_a_scan_shows_what_is_there_in_order_whatever_was_written_since_the_last_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[bytes, bytes | None] | str]
) -> None:
    opened = HeapBackend().open(None, ALL, context(tmp_path_factory.getbasetemp()))
    model: dict[bytes, bytes] = {}
    cuts: list[Cut] = []
    for step in steps:
        if step == "cut":
            cuts.append(opened.cut(CheckpointId(len(cuts))))
        elif step == "release":
            for cut in cuts:
                cut.release()
        elif isinstance(step, dict):
            opened.apply(step.items())
            model.update({at: value for at, value in step.items() if value is not None})
            for at in [at for at, value in step.items() if value is None]:
                model.pop(at, None)
        assert list(opened.scan(b"", b"\xff\xff\xff")) == sorted(model.items())
