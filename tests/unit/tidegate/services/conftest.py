from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidegate.testing.services.repository import Coordinate, Repository


@dataclass(frozen=True)
class LocalRepository:
    """A Maven repository in a folder."""

    folder: Path

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    @property
    def reader(self) -> Repository:
        return Repository(self.url)

    def put(self, path: str, content: bytes) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        digest = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        file.with_name(f"{file.name}.sha1").write_text(f"{digest}  {file.name}\n")

    def publish(self, name: str, body: str = "") -> Coordinate:
        """Publish `artifact:version` of group `g` with a pom that holds `body`."""
        coordinate = Coordinate("g", *name.split(":"))
        pom = f'<project xmlns="http://maven.apache.org/POM/4.0.0">{body}</project>'
        self.put(coordinate.path("pom"), pom.encode())
        self.put(coordinate.path("jar"), f"jar of {name}".encode())
        return coordinate


@pytest.fixture
def repository(tmp_path: Path) -> LocalRepository:
    return LocalRepository(tmp_path / "repository")
