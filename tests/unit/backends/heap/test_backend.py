from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.heap import HeapBackend
from tidegate.backends.spi import BackendContext, BaseHandle, Cut, Excess, InlineChunk, StoredChunk
from tidegate.backends.storage import MemoryStorage, StorageFiles
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
