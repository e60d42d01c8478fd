"""Folders of an output that are removed: those of readers are made again, the hidden one is named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidegate.connectors.base import FileCommitter, FileWriter, Shape
from tidegate.connectors.base.local_files import LocalCommitterStore
from tidegate.connectors.files import FunctionBuckets, TextLines
from tidegate.elements import Batch
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId
from tidegate.twophase.spi import CommitAnswer, Committable, CommitterContext, Retry, WriterContext

ONE, TWO = CheckpointId(1), CheckpointId(2)


@pytest.fixture
def writer(tmp_path: Path, writer_context: Callable[..., WriterContext]) -> Iterator[FileWriter]:
    writer = FileWriter(tmp_path, writer_context(), TextLines(), "part", ".txt")
    yield writer
    writer.close()


@pytest.fixture
def committer(tmp_path: Path, committer_context: CommitterContext) -> FileCommitter:
    return FileCommitter(tmp_path, committer_context)


@pytest.fixture
def bucketed(tmp_path: Path, writer_context: Callable[..., WriterContext]) -> Iterator[FileWriter]:
    shape = Shape(buckets=FunctionBuckets(lambda record: f"a={record}/b={record}"))
    writer = FileWriter(tmp_path, writer_context(), TextLines(), "part", ".txt", shape=shape)
    yield writer
    writer.close()


@pytest.mark.parametrize("removed", ["a=1/b=1", "a=1"], ids=["its own", "the one above too"])
def test_a_folder_that_a_reader_emptied_and_removed_is_made_again(
    tmp_path: Path,
    bucketed: FileWriter,
    committer: FileCommitter,
    committable: Callable[..., Committable],
    removed: str,
) -> None:
    bucketed.write(Batch(["1"]))
    committer.commit([committable(bucketed.prepare(ONE))])
    shutil.rmtree(tmp_path / removed)
    bucketed.write(Batch(["1"]))
    work = committable(bucketed.prepare(TWO), 2)

    assert committer.commit([work]) == [CommitAnswer.COMMITTED]
    assert Path(work.describe).read_text() == "1\n"


@pytest.mark.parametrize(
    ("times", "answer"),
    [(2, CommitAnswer.COMMITTED), (3, Retry)],
    ids=["for a while", "each time"],
)
def test_a_folder_that_is_removed_between_its_making_and_the_link_is_made_again_and_never_unknown(
    bucketed: FileWriter,
    committer: FileCommitter,
    committable: Callable[..., Committable],
    monkeypatch: pytest.MonkeyPatch,
    times: int,
    answer: CommitAnswer | type[Retry],
) -> None:
    bucketed.write(Batch(["1"]))
    work = committable(bucketed.prepare(ONE))
    real, left = os.link, [times]

    def link(source: Path, target: Path) -> None:
        if left[0]:
            left[0] -= 1
            target.parent.rmdir()
        real(source, target)

    monkeypatch.setattr(os, "link", link)

    (first,) = committer.commit([work])
    assert first == answer or type(first) is answer
    assert committer.commit([work])[0] in (CommitAnswer.COMMITTED, CommitAnswer.ALREADY_COMMITTED)


def test_a_folder_that_is_always_removed_is_named(tmp_path: Path) -> None:
    outlet = LocalCommitterStore(tmp_path, "orders.sink")

    def vanish() -> None:
        raise FileNotFoundError

    with pytest.raises(
        UnavailableError,
        match=r"removes folder '.*/a=1' as soon as it is created; got 3 attempts; do not delete",
    ):
        outlet._in_folder(tmp_path / "a=1", vanish)


def test_a_file_that_a_reader_took_with_its_folder_before_it_was_durable_is_not_given_twice(
    tmp_path: Path,
    bucketed: FileWriter,
    committer: FileCommitter,
    committable: Callable[..., Committable],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucketed.write(Batch(["1"]))
    work = committable(bucketed.prepare(ONE))
    real = os.link

    def link(source: Path, target: Path) -> None:
        real(source, target)
        shutil.rmtree(target.parent)

    monkeypatch.setattr(os, "link", link)

    assert committer.commit([work]) == [CommitAnswer.COMMITTED]
    assert list((tmp_path / ".tidegate" / "orders.sink").iterdir()) == []


def test_neither_a_folder_nor_a_pending_file_is_unknown(
    tmp_path: Path, bucketed: FileWriter, committer: FileCommitter, committable: Callable[..., Committable]
) -> None:
    bucketed.write(Batch(["1"]))
    work = committable(bucketed.prepare(ONE))
    committer.commit([work])
    shutil.rmtree(tmp_path / "a=1")

    assert committer.commit([work]) == [CommitAnswer.UNKNOWN]


@pytest.mark.parametrize("step", ["write", "prepare"])
def test_a_hidden_folder_that_was_removed_is_named(tmp_path: Path, writer: FileWriter, step: str) -> None:
    if step == "prepare":
        writer.write(Batch(["a"]))
    shutil.rmtree(tmp_path / ".tidegate")

    with pytest.raises(
        UnavailableError,
        match=r"its folder \.tidegate/orders\.sink of unfinished files was removed while the job runs; only tidegate may",
    ):
        writer.write(Batch(["b"])) if step == "write" else writer.prepare(ONE)


def test_a_hidden_folder_that_was_removed_makes_its_commits_unknown(
    tmp_path: Path, writer: FileWriter, committer: FileCommitter, committable: Callable[..., Committable]
) -> None:
    writer.write(Batch(["a"]))
    work = committable(writer.prepare(ONE))
    shutil.rmtree(tmp_path / ".tidegate")

    assert committer.commit([work]) == [CommitAnswer.UNKNOWN]


def test_a_mark_is_made_in_a_folder_that_a_reader_removed(tmp_path: Path) -> None:
    outlet = LocalCommitterStore(tmp_path, "orders.sink")
    outlet.mark("a=1/_SUCCESS")
    shutil.rmtree(tmp_path / "a=1")

    outlet.mark("a=1/_SUCCESS")

    assert (tmp_path / "a=1" / "_SUCCESS").read_bytes() == b""
