"""Directories that only their owner can enter: how they are made, and which ones are taken for such."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidegate.backends.private import create_file, make_directories, make_directory, open_directory, open_file


@pytest.fixture(params=[0, 0o777], ids=["open", "closed"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mode", [0o700, 0o750, 0o2770])
def test_a_directory_has_its_mode_whatever_the_umask(tmp_path: Path, mode: int) -> None:
    assert make_directories(tmp_path / "a/b", mode) == [tmp_path / "a", tmp_path / "a/b"]
    assert [mode_of(tmp_path / "a"), mode_of(tmp_path / "a/b")] == [mode, mode]


def test_a_directory_is_never_more_open_than_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0)
    monkeypatch.setattr(Path, "chmod", lambda path, mode: None)
    make_directory(tmp_path / "private")
    os.umask(before)
    assert mode_of(tmp_path / "private") == 0o700


def test_directories_that_exist_keep_their_modes(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there").chmod(0o755)
    assert make_directories(tmp_path / "there") == []
    assert mode_of(tmp_path / "there") == 0o755


def test_an_inherited_group_stays_inherited(tmp_path: Path) -> None:
    tmp_path.chmod(0o2750)
    make_directory(tmp_path / "below", 0o770)
    assert mode_of(tmp_path / "below") == 0o2770


def test_a_name_that_is_taken_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "directory").mkdir()
    for name in ("link", "directory"):
        with pytest.raises(FileExistsError):
            make_directory(tmp_path / name)
    assert not (tmp_path / "nowhere").exists()


def let_others_in(directory: Path) -> None:
    directory.chmod(0o777)


def replace_by_a_link(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))
    directory.symlink_to(directory.with_name("elsewhere"))


def replace_by_a_file(directory: Path) -> None:
    directory.rmdir()
    directory.touch(0o700)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            let_others_in,
            r"own is not private to this user; got owner \d+ and mode 0777; expected owner \d+ and mode 0700",
        ),
        (replace_by_a_link, r"own is a file or a symbolic link; expected a directory"),
        (replace_by_a_file, r"own is a file or a symbolic link; expected a directory"),
    ],
)
def test_what_is_not_private_is_refused(tmp_path: Path, change: Callable[[Path], None], message: str) -> None:
    own = tmp_path / "own"
    make_directory(own)
    os.close(open_directory(own))
    change(own)
    with pytest.raises(PermissionError, match=message):
        open_directory(own)


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_directory(tmp_path / "own")
    if os.geteuid() == 0:
        os.chown(tmp_path / "own", 65_534, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65_534)
    with pytest.raises(PermissionError, match=r"is not private to this user; got owner"):
        open_directory(tmp_path / "own")


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    make_directory(own := tmp_path / "own")
    handle = open_directory(own)
    with create_file(handle, "file") as file:
        file.write(b"content")
    (own / "link").symlink_to(own / "file")
    os.mkfifo(own / "pipe")

    assert mode_of(own / "file") == 0o600
    with open_file(handle, "file") as file:
        assert file.read() == b"content"
    with pytest.raises(OSError, match="link"):
        open_file(handle, "link")
    with pytest.raises(PermissionError, match=r"pipe is not a regular file of user \d+"):
        open_file(handle, "pipe")
    os.close(handle)


def test_a_new_file_replaces_a_link_and_leaves_what_it_points_to(tmp_path: Path) -> None:
    make_directory(own := tmp_path / "own")
    (tmp_path / "precious").write_bytes(b"precious")
    (own / "file").symlink_to(tmp_path / "precious")
    handle = open_directory(own)
    with create_file(handle, "file") as file:
        file.write(b"other")
    os.close(handle)
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert (own / "file").read_bytes() == b"other"
