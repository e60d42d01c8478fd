from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.heap import HeapBackend
from tidegate.backends.spi import BackendContext, BaseHandle, Cut, InlineChunk, StoredChunk
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.errors import ConfigError, StateCorruptError, StateFormatError
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


def test_state_too_large_for_the_metadata_is_refused_with_a_way_out(tmp_path: Path) -> None:
    where = context(tmp_path, **{"max-base": "1 kb"})
    opened = HeapBackend().open(None, ALL, where)
    opened.apply([(b"\0\1a", b"x" * 2_000)])
    with pytest.raises(
        StateFormatError,
        match=r"too large for the heap backend; got 2\d+ bytes; .* use backend filesystem or rocksdb",
    ):
        opened.cut(CheckpointId(1)).publish(where.files, None)


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
