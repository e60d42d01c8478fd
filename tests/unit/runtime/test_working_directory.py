"""Directories with an owner: they live as long as it does, and are swept when it is dead."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidegate.backends.private import make_directory
from tidegate.errors import ConfigError
from tidegate.runtime.working_directory import OwnedDirectory, WorkerDirectories, shared_directory, sweep

OWNER = """
import sys
from pathlib import Path
from tidegate.runtime.working_directory import OwnedDirectory, shared_directory
owned = OwnedDirectory("state", sys.argv[1])
(owned.path / "worker-0").mkdir()
(owned.path / "worker-0" / "file").write_text("state")
shared_directory(Path(sys.argv[1]), "versions", "abc")
print(flush=True)
input()
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process with a directory of its own below `tmp_path`, and one that it shares."""
    command = [sys.executable, "-P", "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def kinds(root: Path) -> list[str]:
    return sorted(path.name.split("-")[1] for path in root.iterdir())


def test_a_directory_is_private_and_goes_with_its_block(tmp_path: Path) -> None:
    with OwnedDirectory("state", tmp_path) as path:
        assert path.parent == tmp_path
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert kinds(tmp_path) == []


def test_a_directory_that_is_forgotten_goes_too(tmp_path: Path) -> None:
    owned = OwnedDirectory("state", tmp_path)
    assert kinds(tmp_path) == ["state"]
    del owned
    gc.collect()
    assert kinds(tmp_path) == []


def test_the_end_of_a_process_removes_what_it_owns(tmp_path: Path, owner: subprocess.Popen[bytes]) -> None:
    owner.communicate(b"\n")
    assert kinds(tmp_path) == ["versions"]


def test_a_forked_process_does_not_remove_what_its_parent_owns(tmp_path: Path) -> None:
    with OwnedDirectory("state", tmp_path) as path:
        program = (
            "import os, sys; from tidegate.runtime.working_directory import OwnedDirectory\n"
            "owned = OwnedDirectory('state', sys.argv[1])\n"
            "if (child := os.fork()) == 0: sys.exit()\n"
            "os.waitpid(child, 0); print(owned.path.exists())"
        )
        said = subprocess.run(
            [sys.executable, "-P", "-c", program, str(path)], capture_output=True, check=True
        )
    assert said.stdout == b"True\n"


def test_what_a_live_process_owns_is_not_swept(tmp_path: Path, owner: subprocess.Popen[bytes]) -> None:
    with OwnedDirectory("sockets", tmp_path):
        sweep([tmp_path, tmp_path])
        assert kinds(tmp_path) == ["sockets", "state", "versions"]


def test_what_a_killed_process_has_left_is_swept(tmp_path: Path, owner: subprocess.Popen[bytes]) -> None:
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert kinds(tmp_path) == ["state", "versions"]
    sweep([tmp_path, tmp_path / "none"])
    assert kinds(tmp_path) == []


def test_sweepers_do_not_disturb_each_other_or_those_who_make_directories(tmp_path: Path) -> None:
    def make(number: int) -> None:
        with OwnedDirectory("state", tmp_path) as path:
            (path / "file").touch()
            sweep([tmp_path])
            assert (path / "file").exists()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(400)))
    assert kinds(tmp_path) == []


def test_a_directory_that_is_swept_while_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[Path]()

    def swept_at_once(directory: Path) -> None:
        make_directory(directory)
        made.append(directory)
        if len(made) == 1:
            sweep([tmp_path])

    monkeypatch.setattr("tidegate.runtime.working_directory.make_directory", swept_at_once)
    with OwnedDirectory("state", tmp_path) as path:
        assert made == [made[0], path]
        assert list(tmp_path.iterdir()) == [path]


def let_others_in(left: Path) -> None:
    left.chmod(0o755)


def make_a_link(left: Path) -> None:
    left.rename(left.parent / "precious")
    left.symlink_to(left.parent / "precious")


def rename_to_another_host(left: Path) -> None:
    left.rename(left.parent / "tidegate-state-00000000-abcdef12")


def rename_to_an_unknown_form(left: Path) -> None:
    left.rename(left.parent / f"{left.name}.old")


@pytest.mark.parametrize(
    "change", [let_others_in, make_a_link, rename_to_another_host, rename_to_an_unknown_form]
)
def test_what_may_be_another_users_or_hosts_is_left_alone(
    tmp_path: Path, owner: subprocess.Popen[bytes], change: Callable[[Path], None]
) -> None:
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    (left,) = tmp_path.glob("tidegate-state-*")
    change(left)
    sweep([tmp_path])
    assert list(tmp_path.rglob("file")) != []


def test_what_another_user_has_left_is_left_alone(
    tmp_path: Path, owner: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    (left,) = tmp_path.glob("tidegate-state-*")
    if os.geteuid() == 0:
        os.chown(left, 65_534, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65_534)
    sweep([tmp_path])
    assert (left / "worker-0" / "file").exists()


def test_a_shared_directory_stays_while_one_process_uses_it(
    tmp_path: Path, owner: subprocess.Popen[bytes]
) -> None:
    mine = shared_directory(tmp_path, "versions", "abc")
    assert mine is not None
    assert list(tmp_path.glob("tidegate-versions-*")) == [mine]
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    sweep([tmp_path])
    assert kinds(tmp_path) == ["versions"]
    shutil.rmtree(mine)
    assert shared_directory(tmp_path, "versions", "abc") == mine
    assert mine.exists()


def test_a_shared_directory_that_others_can_enter_is_not_used(tmp_path: Path) -> None:
    mine = shared_directory(tmp_path, "versions", "0")
    assert mine is not None
    planted = tmp_path / mine.name.replace("-0", "-1")
    planted.mkdir()
    planted.chmod(0o777)
    with pytest.warns(RuntimeWarning, match=r"is not private to this user; .*; it is not used$"):
        assert shared_directory(tmp_path, "versions", "1") is None


def test_directories_are_dealt_to_roots_in_turn_and_go_together(tmp_path: Path) -> None:
    roots = [str(tmp_path / "one"), str(tmp_path / "two")]
    dealt = WorkerDirectories("state", roots)
    directories = [dealt.of(number) for number in range(3)]
    assert [path.parent.parent.name for path in directories] == ["one", "two", "one"]
    assert len({path.parent for path in directories}) == 2
    assert dealt.of(0) == directories[0]
    assert sorted(dealt.all()) == sorted(directories)
    dealt.remove()
    assert [list(Path(root).iterdir()) for root in roots] == [[], []]


def test_a_root_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigError,
        match=r"cannot write working state to .*file: .*; make it writable, or set taskmanager",
    ):
        WorkerDirectories("state", [str(tmp_path / "file")]).of(0)


def test_a_name_leaves_room_for_the_address_of_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    with OwnedDirectory("sockets") as path:
        longest = Path("/", "x" * 58, path.name, "worker-9999")
    with pytest.raises(FileNotFoundError), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(longest))  # an address that is too long is refused before anything is looked for
