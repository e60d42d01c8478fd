"""Maven dependency resolution for machines without `mvn`: the jars of a Java program.

It follows parents, dependency management with imported bills of materials, properties, exclusions and optional
flags, takes the scopes compile and runtime, and of two versions of an artifact the one nearest to the root.
Profiles and version ranges are outside of it; a range is refused by name.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import TypeAlias

from tidegate.errors import ConfigError, UnavailableError
from tidegate.testing.services.repository import Coordinate, Repository, parse_xml

__all__ = ["DOWNLOADS", "resolve"]

DOWNLOADS = 16
"""How many files are fetched at a time."""

Exclusions: TypeAlias = frozenset[tuple[str, str]]
Properties: TypeAlias = dict[str, str]

_PLACEHOLDER = re.compile(r"\$\{([^}]+)\}")


def resolve(roots: Sequence[Coordinate], repository: Repository) -> list[Coordinate]:
    """The jars on the class path of a program that depends on `roots`.

    Raises:
        ConfigError: a dependency names a version range.
        UnavailableError: the repository does not answer or holds an unreadable pom.
    """
    poms = _Poms(repository)
    chosen: dict[tuple[str, ...], _Dependency] = {}
    level: list[tuple[_Dependency, Exclusions]] = [(_Dependency(root), frozenset()) for root in roots]
    with ThreadPoolExecutor(DOWNLOADS) as pool:
        while level:
            nearest = [entry for entry in level if chosen.setdefault(entry[0].key, entry[0]) is entry[0]]
            children = pool.map(poms.dependencies, [dependency.coordinate for dependency, _ in nearest])
            level = [
                (child, exclusions | child.exclusions)
                for (_, exclusions), below in zip(nearest, children, strict=True)
                for child in below
                if child.needed and not child.excluded_by(exclusions)
            ]
    return [dependency.coordinate for dependency in chosen.values() if dependency.kind == "jar"]


@dataclass(frozen=True, slots=True)
class _Dependency:
    coordinate: Coordinate
    scope: str = ""
    kind: str = "jar"
    optional: bool = False
    exclusions: Exclusions = frozenset()

    @property
    def key(self) -> tuple[str, ...]:
        at = self.coordinate
        return at.group, at.artifact, at.classifier, self.kind

    @property
    def needed(self) -> bool:
        return not self.optional and self.scope in ("", "compile", "runtime")

    def excluded_by(self, exclusions: Exclusions) -> bool:
        group, artifact = self.coordinate.group, self.coordinate.artifact
        return not exclusions.isdisjoint({(group, artifact), ("*", artifact), (group, "*"), ("*", "*")})

    def completed_by(self, managed: _Dependency | None) -> _Dependency:
        """This dependency, with missing values from dependency management."""
        if managed is None:
            return self
        version = self.coordinate.version or managed.coordinate.version
        return replace(
            self,
            coordinate=replace(self.coordinate, version=version),
            scope=self.scope or managed.scope,
            exclusions=self.exclusions or managed.exclusions,
        )


class _Poms:
    """Projects as Maven sees them: parents merged, properties filled in, management applied."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._parsed: dict[Coordinate, ET.Element] = {}
        self._locks: defaultdict[Coordinate, Lock] = defaultdict(Lock)
        self._locks_lock = Lock()

    def dependencies(self, of: Coordinate) -> list[_Dependency]:
        lineage = list(self._lineage(of))
        managed = self._managed(of, lineage)
        declared = _read_all(of, lineage, "dependencies/dependency")
        return [_checked(of, own.completed_by(managed.get(own.key))) for own in declared.values()]

    def _managed(self, of: Coordinate, lineage: Sequence[ET.Element]) -> dict[tuple[str, ...], _Dependency]:
        own = _read_all(of, lineage, "dependencyManagement/dependencies/dependency")
        imported = [entry.coordinate for entry in own.values() if entry.scope == "import"]
        for bill in imported:
            own = self._managed(bill, list(self._lineage(bill))) | own
        return own

    def _lineage(self, of: Coordinate) -> Iterator[ET.Element]:
        """The project, its parent, and so on."""
        project = self._project(of)
        yield project
        if (parent := project.find("parent")) is not None:
            yield from self._lineage(_coordinate(parent, {}))

    def _project(self, of: Coordinate) -> ET.Element:
        with self._locks_lock:
            lock = self._locks[of]
        with lock:  # siblings share parents, and each is to be fetched once
            if of not in self._parsed:
                self._parsed[of] = self._fetch(of)
            return self._parsed[of]

    def _fetch(self, of: Coordinate) -> ET.Element:
        try:
            return parse_xml(self._repository.read(of.path("pom")))
        except ET.ParseError as error:
            raise UnavailableError(
                f"the pom of {of} in {self._repository.url} is not valid XML: {error}; retry, or install mvn"
            ) from error


def _read_all(of: Coordinate, lineage: Sequence[ET.Element], path: str) -> dict[tuple[str, ...], _Dependency]:
    """Every dependency at `path`; a child's entry overrides its parent's."""
    properties = _properties(of, lineage)
    found: dict[tuple[str, ...], _Dependency] = {}
    for project in lineage:
        for element in project.iterfind(path):
            dependency = _dependency(element, properties)
            found.setdefault(dependency.key, dependency)
    return found


def _dependency(element: ET.Element, properties: Properties) -> _Dependency:
    return _Dependency(
        _coordinate(element, properties),
        scope=_text(element, "scope", properties),
        kind=_text(element, "type", properties) or "jar",
        optional=_text(element, "optional", properties) == "true",
        exclusions=frozenset(_exclusions(element.iterfind("exclusions/exclusion"), properties)),
    )


def _exclusions(elements: Iterable[ET.Element], properties: Properties) -> Iterator[tuple[str, str]]:
    for element in elements:
        yield _text(element, "groupId", properties), _text(element, "artifactId", properties)


def _coordinate(element: ET.Element, properties: Properties) -> Coordinate:
    return Coordinate(
        *(_text(element, tag, properties) for tag in ("groupId", "artifactId", "version", "classifier"))
    )


def _properties(of: Coordinate, lineage: Sequence[ET.Element]) -> Properties:
    properties: Properties = {}
    for project in reversed(lineage):
        properties |= {entry.tag: entry.text or "" for entry in project.iterfind("properties/*")}
    known = {"groupId": of.group, "artifactId": of.artifact, "version": of.version}
    if (parent := lineage[0].find("parent")) is not None:
        known |= {f"parent.{entry.tag}": entry.text or "" for entry in parent}
    return properties | {
        f"{prefix}.{name}": text for name, text in known.items() for prefix in ("project", "pom")
    }


def _text(element: ET.Element, tag: str, properties: Properties) -> str:
    text = element.findtext(tag, "").strip()
    while (filled := _PLACEHOLDER.sub(lambda found: properties.get(found[1], found[0]), text)) != text:
        text = filled
    return text


def _checked(of: Coordinate, dependency: _Dependency) -> _Dependency:
    version = dependency.coordinate.version
    if dependency.needed and (not version or version[0] in "[(" or "${" in version):
        raise ConfigError(
            f"{of} needs {dependency.coordinate.artifact} in version {version!r}; expected a plain version; "
            "install mvn, which can resolve it"
        )
    return dependency
