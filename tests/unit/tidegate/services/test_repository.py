from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate.errors import ConfigError, UnavailableError
from tidegate.testing.services.process import Port
from tidegate.testing.services.repository import MAVEN_CENTRAL, Coordinate, Repository, repository_url

if TYPE_CHECKING:
    from .conftest import LocalRepository


def settings(folder: Path, mirror_of: str) -> Path:
    file = folder / "settings.xml"
    file.write_text(
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors>'
        "<mirror><id>other</id><mirrorOf>jboss</mirrorOf><url>https://other.example/maven</url></mirror>"
        f"<mirror><id>m</id><mirrorOf>{mirror_of}</mirrorOf><url> https://mirror.example/maven/ </url></mirror>"
        "</mirrors></settings>"
    )
    return file


def test_a_coordinate_knows_its_path_with_and_without_a_classifier() -> None:
    assert Coordinate("a.b", "c", "1").path("pom") == "a/b/c/1/c-1.pom"
    assert Coordinate("a.b", "c", "1", "linux").path("jar") == "a/b/c/1/c-1-linux.jar"
    assert str(Coordinate("a.b", "c", "1", "linux")) == "a.b:c:linux:1"


@pytest.mark.parametrize("mirror_of", ["*", "central", "external:*", "*,!internal", "internal,central"])
def test_a_mirror_of_central_replaces_it(tmp_path: Path, mirror_of: str) -> None:
    assert repository_url(settings(tmp_path, mirror_of)) == "https://mirror.example/maven/"


@pytest.mark.parametrize("mirror_of", ["*,!central", "internal", ""])
def test_a_mirror_of_something_else_does_not(tmp_path: Path, mirror_of: str) -> None:
    assert repository_url(settings(tmp_path, mirror_of)) == MAVEN_CENTRAL


def test_without_settings_it_is_central(tmp_path: Path) -> None:
    assert repository_url(tmp_path / "none.xml") == MAVEN_CENTRAL


def test_settings_that_are_not_xml_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "settings.xml").write_text("mirror: here")
    with pytest.raises(ConfigError, match=r"settings.xml is not valid XML: .*; correct or remove it"):
        repository_url(tmp_path / "settings.xml")


def test_a_file_is_given_when_its_sha1_agrees(repository: LocalRepository) -> None:
    repository.put("a/b.jar", b"content")
    assert repository.reader.read("a/b.jar") == b"content"


def test_a_damaged_file_is_refused_with_both_sums(repository: LocalRepository) -> None:
    repository.put("a/b.jar", b"content")
    (repository.folder / "a/b.jar").write_bytes(b"conte")
    with pytest.raises(
        UnavailableError, match=r"^a/b.jar from the .* is damaged: got sha1 7294.*; expected 040f"
    ):
        repository.reader.read("a/b.jar")


def test_a_missing_file_is_named(repository: LocalRepository) -> None:
    with pytest.raises(
        UnavailableError,
        match=r"a/b.jar cannot be fetched from the jar repository .*: .*No such file.*; check the network, or set",
    ):
        repository.reader.read("a/b.jar")


def test_a_repository_that_does_not_answer_is_named() -> None:
    port = Port()
    url = f"http://127.0.0.1:{port.number}/maven"
    with pytest.raises(
        UnavailableError,
        match=rf"^a.jar cannot be fetched from the jar repository {url}: .*refused.*; check the",
    ):
        Repository(url).read("a.jar")
    port.release()


def test_an_address_that_is_no_url_is_named() -> None:
    with pytest.raises(
        UnavailableError, match=r"^a.jar cannot be fetched from the jar repository mirror: unknown url type"
    ):
        Repository("mirror").read("a.jar")
