"""A Maven repository: names of artifacts, files with checked content, the user's mirror.

Example:
    >>> Coordinate("org.slf4j", "slf4j-api", "1.7.36").path("pom")
    'org/slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.pom'
"""

from __future__ import annotations

import hashlib
import http.client
import ssl
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import ConfigError, UnavailableError

__all__ = ["MAVEN_CENTRAL", "Coordinate", "Repository", "parse_xml", "repository_url"]

MAVEN_CENTRAL = "https://repo.maven.apache.org/maven2"
TIMEOUT_S = 15
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Coordinate:
    """The name of one artifact."""

    group: str
    artifact: str
    version: str
    classifier: str = ""

    def __str__(self) -> str:
        return ":".join(part for part in (self.group, self.artifact, self.classifier, self.version) if part)

    @property
    def jar(self) -> str:
        """File name of its jar."""
        return "-".join(part for part in (self.artifact, self.version, self.classifier) if part) + ".jar"

    def path(self, extension: str) -> str:
        """Where its pom, jar or archive lies in a repository; there is one pom for all classifiers."""
        whole = self.jar.removesuffix("jar") + extension
        name = f"{self.artifact}-{self.version}.pom" if extension == "pom" else whole
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{name}"


class Repository:
    """Reads files and compares each with its SHA-1; safe to use from several threads."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        # One context for all requests: each would otherwise load the certificates again.
        https = urllib.request.HTTPSHandler(context=ssl.create_default_context())
        self._opener = urllib.request.build_opener(https)

    def read(self, path: str) -> bytes:
        """The content of `path`.

        Raises:
            UnavailableError: no answer, no such file, or damaged on every attempt.
        """
        for _ in range(ATTEMPTS):
            content = self._get(path)
            expected = self._get(f"{path}.sha1").decode(errors="replace").partition(" ")[0].strip()
            got = hashlib.sha1(content, usedforsecurity=False).hexdigest()
            if got == expected:
                return content
        raise UnavailableError(
            f"{path} from the jar repository {self.url} is damaged: got sha1 {got}; expected {expected}; retry, "
            "or set another mirror in ~/.m2/settings.xml"
        )

    def _get(self, path: str) -> bytes:
        failure: Exception | None = None
        for _ in range(ATTEMPTS):
            try:
                with self._opener.open(f"{self.url}/{path}", timeout=TIMEOUT_S) as response:
                    content: bytes = response.read()
                    return content
            except (OSError, http.client.HTTPException, ValueError) as error:
                failure = error
                if isinstance(error, ValueError | urllib.error.HTTPError):
                    break  # it did answer, or never will
        raise UnavailableError(
            f"{path} cannot be fetched from the jar repository {self.url}: {failure}; check the network, or set a "
            "mirror in ~/.m2/settings.xml"
        ) from failure


def repository_url(settings: Path) -> str:
    """Maven Central, or the first mirror of it that Maven's `settings.xml` names.

    Raises:
        ConfigError: the file is not XML.
    """
    if not settings.exists():
        return MAVEN_CENTRAL
    try:
        root = parse_xml(settings.read_bytes())
    except ET.ParseError as error:
        raise ConfigError(f"{settings} is not valid XML: {error}; correct or remove it") from error
    for mirror in root.iterfind("mirrors/mirror"):
        if _mirrors_central(mirror.findtext("mirrorOf", "")):
            return mirror.findtext("url", MAVEN_CENTRAL).strip()
    return MAVEN_CENTRAL


def parse_xml(content: bytes) -> ET.Element:
    """The root element, with every tag bare of its namespace."""
    root = ET.fromstring(content)
    for element in root.iter():
        if isinstance(element.tag, str):
            element.tag = element.tag.rpartition("}")[2]
    return root


def _mirrors_central(patterns: str) -> bool:
    names = {name.strip() for name in patterns.split(",")}
    return "!central" not in names and not names.isdisjoint({"*", "central", "external:*"})
