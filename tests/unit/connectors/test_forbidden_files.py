"""Files and folders that cannot be read, and folders that links lead to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate.connectors.base.dead_letters import OnError
from tidegate.connectors.files import TextFormat
from tidegate.connectors.files.enumerator import FileEnumerator, Files, WatchingEnumerator
from tidegate.connectors.files.reader import FileReader
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.spi import Finished, ReaderContext
from tidegate.errors import ConfigError
from tidegate.ids import SplitId

Forbid = Callable[[Path], Callable[[], None]]


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Forbid:
    """Takes the right to read a path, also from root, whom the system refuses nothing; the answer gives it back."""
    refused: set[str] = set()
    access, listed, opened = os.access, Path.iterdir, Path.open

    def allowed(path: Any, mode: int) -> bool:
        return str(path) not in refused and access(path, mode)

    def refusing(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, *args: Any, **named: Any) -> Any:
            if str(path) in refused:
                raise PermissionError(13, "Permission denied", str(path))
            return method(path, *args, **named)

        return call

    monkeypatch.setattr(os, "access", allowed)
    monkeypatch.setattr(Path, "iterdir", refusing(listed))
    monkeypatch.setattr(Path, "open", refusing(opened))

    def take(path: Path) -> Callable[[], None]:
        refused.add(str(path))
        return lambda: refused.discard(str(path))

    return take


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "a").write_text("x\n")
    (tmp_path / "in" / "sub" / "b").write_text("y\n")
    return tmp_path / "in"


def files(folder: Path, on_error: OnError) -> Files:
    return Files([folder], TextFormat(), 1 << 20, strict=on_error == "fail")


@pytest.mark.parametrize("what", ["a", "sub"], ids=["file", "folder"])
@pytest.mark.parametrize("watched", [False, True], ids=["once", "watched"])
def test_what_may_not_be_read_fails_the_job_with_its_path(
    folder: Path, deal: Any, forbid: Forbid, what: str, watched: bool
) -> None:
    forbid(folder / what)
    found = files(folder, "fail")
    enumerator = (
        WatchingEnumerator(deal, found, 1_000, None) if watched else FileEnumerator(deal, found, None)
    )

    with pytest.raises(
        ConfigError, match=rf"{what}' cannot be read: .* grant read permission, or set on_error to 'skip'"
    ):
        enumerator.start()


@pytest.mark.parametrize("what", ["a", "sub"], ids=["file", "folder"])
def test_a_watcher_that_skips_leaves_it_out_says_so_and_tries_again(
    folder: Path, deal: Any, forbid: Forbid, what: str
) -> None:
    give_back = forbid(folder / what)
    watcher = WatchingEnumerator(deal, files(folder, "skip"), 1_000, None)
    watcher.start()
    assert watcher.left_out() == [str(folder / what)]
    assert len(watcher.pending()) == 1
    watcher.discovered(watcher.discover())
    assert (len(watcher.pending()), len(watcher.left_out())) == (1, 1)

    give_back()
    watcher.discovered(watcher.discover())
    assert watcher.left_out() == []
    assert sorted(watcher.pending()) == [f"{folder}/a:0", f"{folder}/sub/b:0"]


def test_a_source_that_looks_once_and_skips_counts_a_folder_it_may_not_list(
    folder: Path, deal: Any, forbid: Forbid, reader_context: ReaderContext
) -> None:
    forbid(folder / "sub")
    enumerator = FileEnumerator(deal, files(folder, "skip"), None)
    enumerator.start()
    for index in range(deal.parallelism):
        enumerator.request(index)
    reader = FileReader(TextFormat(), "skip", reader_context)
    reader.add_splits([split for splits in deal.assigned.values() for split in splits])
    reader.no_more_splits()
    values: list[str] = []
    while not isinstance(found := reader.poll(10), Finished):
        values += getattr(found, "values", [])

    assert (values, reader.parts_left_out) == (["x"], 1)


def test_a_reader_that_loses_the_right_to_read_fails_for_good(
    folder: Path, monkeypatch: pytest.MonkeyPatch, reader_context: ReaderContext
) -> None:
    class Refused(TextFormat):
        def read(self, split: FileSplit) -> Any:
            raise PermissionError(13, "Permission denied", split.path)

    reader = FileReader(Refused(), "fail", reader_context)
    reader.add_splits([FileSplit(SplitId("a:0"), str(folder / "a"), 0, 2)])
    with pytest.raises(ConfigError, match="a' cannot be read"):
        reader.poll(1)


def test_a_directory_is_visited_once_whatever_links_lead_to_it(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c").write_text("z\n")
    (folder / "sub" / "loop").symlink_to(folder)
    (folder / "again").symlink_to(folder / "sub")
    (folder / "one").symlink_to(outside)
    (folder / "two").symlink_to(outside)
    (folder / "itself").symlink_to(folder / "itself")
    (folder / "file").symlink_to(folder / "a")

    names, refused = files(folder, "fail").look()

    found = [str(Path(name).relative_to(folder)) for name in names]
    assert (found, refused) == (["a", "file", "one/c", "sub/b"], [])
