"""Copies on this machine are read only where nobody else can have written them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import xxhash

from tidegate.backends.private import make_directory
from tidegate.backends.spi import StoredChunk
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.backends.storage.copies import CopiedFiles, copy_name
from tidegate.errors import StateCorruptError

EVIL = pickle.dumps("what another user wants to have run")
CHUNK = StoredChunk("run/shared/one", len(EVIL), xxhash.xxh3_64_intdigest(EVIL))
"""The checksum has no key: who knows the storage can forge a copy that is intact."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of copies, with one that is intact and whose original is gone."""
    make_directory(directory := tmp_path / "copies")
    (directory / copy_name(CHUNK.name)).write_bytes(EVIL)
    return directory


def copied(directory: Path) -> CopiedFiles:
    return CopiedFiles(StorageFiles(MemoryStorage().blobs, "run/shared", inline_threshold=0), directory)


def let_others_in(directory: Path) -> None:
    directory.chmod(0o777)


def give_to_another(directory: Path) -> None:
    if os.geteuid() == 0:
        os.chown(directory, 65_534, -1)
    else:
        let_others_in(directory)


def make_a_link(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))
    directory.symlink_to(directory.with_name("elsewhere"))


def test_a_copy_in_a_private_directory_is_read(directory: Path) -> None:
    assert copied(directory).fetch(CHUNK) == EVIL


@pytest.mark.parametrize("plant", [let_others_in, give_to_another, make_a_link])
def test_a_directory_that_another_user_may_have_made_is_not_used(
    directory: Path, plant: Callable[[Path], None]
) -> None:
    plant(directory)
    files = copied(directory)
    with (
        pytest.warns(RuntimeWarning, match=r"copies is .*; state is read from the checkpoint storage$"),
        pytest.raises(StateCorruptError, match="run/shared/one does not exist"),
    ):
        files.fetch(CHUNK)
    before = len(list(directory.iterdir()))
    with pytest.warns(RuntimeWarning, match="copies is "):
        files.store(b"precious")
    assert len(list(directory.iterdir())) == before


def test_a_copy_that_is_a_link_is_not_read(directory: Path) -> None:
    copy = directory / copy_name(CHUNK.name)
    copy.rename(directory.parent / "elsewhere")
    copy.symlink_to(directory.parent / "elsewhere")
    with pytest.raises(StateCorruptError, match="run/shared/one does not exist"):
        copied(directory).fetch(CHUNK)


def test_a_new_copy_does_not_write_through_a_link(directory: Path) -> None:
    storage = MemoryStorage()
    storage.blobs.put(CHUNK.name, EVIL)
    copy = directory / copy_name(CHUNK.name)
    copy.unlink()
    (precious := directory.parent / "precious").write_bytes(b"precious")
    copy.symlink_to(precious)
    files = CopiedFiles(StorageFiles(storage.blobs, "run/shared"), directory)
    assert files.fetch(CHUNK) == EVIL
    assert precious.read_bytes() == b"precious"
    assert copy.read_bytes() == EVIL
    assert not copy.is_symlink()
