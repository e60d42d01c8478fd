from __future__ import annotations

import io
import shutil
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate.errors import UnavailableError
from tidegate.testing.services.jars import fetch_archive, fetch_jars
from tidegate.testing.services.repository import Coordinate

if TYPE_CHECKING:
    from .conftest import LocalRepository

ROOTS = [Coordinate("g", "root", "1"), Coordinate("g", "log", "2")]
SET = "root-1+log-2"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, repository: LocalRepository, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without mvn whose mirror is the local repository, which holds ROOTS."""
    home = tmp_path / "home"
    (home / ".m2").mkdir(parents=True)
    mirror = f"<mirror><mirrorOf>*</mirrorOf><url>{repository.url}</url></mirror>"
    (home / ".m2" / "settings.xml").write_text(f"<settings><mirrors>{mirror}</mirrors></settings>")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    repository.publish("root:1")
    repository.publish("log:2")
    return home


def install_mvn(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mvn").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_jars_are_kept_in_the_cache_of_the_user(home: Path) -> None:
    folder = fetch_jars(ROOTS)
    assert folder == home / ".cache" / "tidegate" / "jars" / SET
    assert names(folder) == {"root-1.jar", "log-2.jar", "SHA1SUMS"}
    assert (folder / "log-2.jar").read_bytes() == b"jar of log:2"


def test_the_cache_can_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert fetch_jars(ROOTS) == tmp_path / "cache" / "tidegate" / "jars" / SET


def test_cached_jars_need_no_repository(repository: LocalRepository) -> None:
    folder = fetch_jars(ROOTS)
    shutil.rmtree(repository.folder)
    assert fetch_jars(ROOTS) == folder


@pytest.mark.parametrize("damage", ["truncated", "deleted", "without sums"])
def test_a_damaged_set_is_fetched_again(damage: str) -> None:
    folder = fetch_jars(ROOTS)
    if damage == "truncated":
        (folder / "root-1.jar").write_bytes(b"jar o")
    else:
        (folder / ("root-1.jar" if damage == "deleted" else "SHA1SUMS")).unlink()
    assert (fetch_jars(ROOTS) / "root-1.jar").read_bytes() == b"jar of root:1"
    assert names(folder) == {"root-1.jar", "log-2.jar", "SHA1SUMS"}


def test_what_an_interrupted_fetch_left_is_removed(home: Path) -> None:
    cache = home / ".cache" / "tidegate" / "jars"
    (cache / ".fetch-abc").mkdir(parents=True)
    (cache / ".fetch-abc" / "root-1.jar").write_bytes(b"half")
    fetch_jars(ROOTS)
    assert names(cache) == {SET, ".lock"}


def test_a_failed_fetch_leaves_nothing_and_the_next_one_works(
    home: Path, repository: LocalRepository
) -> None:
    (repository.folder / "g/log/2/log-2.jar").write_bytes(b"damaged")
    with pytest.raises(UnavailableError, match=r"log-2.jar from the jar repository .* is damaged"):
        fetch_jars(ROOTS)
    assert names(home / ".cache" / "tidegate" / "jars") == {".lock"}
    repository.publish("log:2")
    assert "log-2.jar" in names(fetch_jars(ROOTS))


def test_concurrent_fetches_see_one_complete_set() -> None:
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(fetch_jars, [ROOTS] * 4))
    assert [names(folder) for folder in folders] == [{"root-1.jar", "log-2.jar", "SHA1SUMS"}]


def test_mvn_is_used_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        'for word; do case "$word" in -DoutputDirectory=*) echo by-mvn > "${word#*=}/root-1.jar";; esac; done'
    )
    install_mvn(script, tmp_path, monkeypatch)
    assert (fetch_jars(ROOTS) / "root-1.jar").read_text() == "by-mvn\n"


def test_a_failure_of_mvn_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_mvn("echo '[ERROR] Unknown host central'; echo '[ERROR] more'; exit 1", tmp_path, monkeypatch)
    expected = r"^mvn could not fetch g:root:1: \[ERROR\] Unknown host central; check the network, or name a mirror in"
    with pytest.raises(UnavailableError, match=expected) as raised:
        fetch_jars(ROOTS)
    assert "\n" not in str(raised.value)


def test_an_archive_is_unpacked_once_and_repaired_when_a_jar_in_it_is_damaged(
    repository: LocalRepository,
) -> None:
    root = Coordinate("g", "program", "3", "all")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in ("program.jar", "lib/more.jar"):
            member = tarfile.TarInfo(name)
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    repository.put("g/program/3/program-3-all.tar.gz", packed.getvalue())
    folder = fetch_archive(root)
    damaged = folder / "lib" / "more.jar"
    assert damaged.read_bytes() == b"lib/more.jar"
    damaged.write_bytes(b"")
    assert fetch_archive(root) == folder
    assert damaged.read_bytes() == b"lib/more.jar"
    shutil.rmtree(repository.folder)
    assert fetch_archive(root) == folder
