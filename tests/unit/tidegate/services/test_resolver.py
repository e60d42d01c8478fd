from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidegate.errors import ConfigError, UnavailableError
from tidegate.testing.services.resolver import resolve

if TYPE_CHECKING:
    from .conftest import LocalRepository


def needs(name: str, extra: str = "") -> str:
    artifact, _, version = name.partition(":")
    tag = f"<version>{version}</version>" if version else ""
    return f"<dependency><groupId>g</groupId><artifactId>{artifact}</artifactId>{tag}{extra}</dependency>"


def project(*dependencies: str) -> str:
    return f"<dependencies>{''.join(dependencies)}</dependencies>"


def managing(*dependencies: str) -> str:
    return f"<dependencyManagement>{project(*dependencies)}</dependencyManagement>"


def without(group: str, artifact: str) -> str:
    exclusion = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
    return f"<exclusions><exclusion>{exclusion}</exclusion></exclusions>"


def child_of(name: str) -> str:
    artifact, version = name.split(":")
    return f"<parent><groupId>g</groupId><artifactId>{artifact}</artifactId><version>{version}</version></parent>"


def jars(repository: LocalRepository, name: str = "root:1") -> set[str]:
    artifact, version = name.split(":")
    root = repository.publish("start:1", project(needs(f"{artifact}:{version}")))
    return {coordinate.jar for coordinate in resolve([root], repository.reader)} - {"start-1.jar"}


def test_dependencies_of_dependencies_are_found(repository: LocalRepository) -> None:
    repository.publish("root:1", project(needs("a:1")))
    repository.publish("a:1", project(needs("b:1")))
    repository.publish("b:1", project(needs("a:1")))
    assert jars(repository) == {"root-1.jar", "a-1.jar", "b-1.jar"}


def test_the_version_nearest_to_the_root_wins(repository: LocalRepository) -> None:
    repository.publish("root:1", project(needs("a:1"), needs("c:1")))
    repository.publish("a:1", project(needs("c:2")))
    repository.publish("c:1", project(needs("only-of-1:1")))
    repository.publish("c:2", project(needs("only-of-2:1")))
    repository.publish("only-of-1:1")
    assert jars(repository) == {"root-1.jar", "a-1.jar", "c-1.jar", "only-of-1-1.jar"}


def test_of_two_equally_near_versions_the_first_wins(repository: LocalRepository) -> None:
    repository.publish("root:1", project(needs("a:1"), needs("b:1")))
    repository.publish("a:1", project(needs("c:2")))
    repository.publish("b:1", project(needs("c:1")))
    repository.publish("c:2")
    assert "c-2.jar" in jars(repository)
    assert "c-1.jar" not in jars(repository)


@pytest.mark.parametrize(
    "extra",
    [
        *(f"<scope>{scope}</scope>" for scope in ("test", "provided", "system", "import")),
        "<optional>true</optional>",
    ],
)
def test_what_is_not_needed_at_run_time_is_left_out(repository: LocalRepository, extra: str) -> None:
    repository.publish("root:1", project(needs("a:1", extra), needs("b:1", "<scope>runtime</scope>")))
    repository.publish("b:1")
    assert jars(repository) == {"root-1.jar", "b-1.jar"}


@pytest.mark.parametrize("pattern", [("g", "c"), ("*", "c"), ("g", "*"), ("*", "*")], ids=":".join)
def test_an_exclusion_holds_for_everything_below(
    repository: LocalRepository, pattern: tuple[str, str]
) -> None:
    repository.publish("root:1", project(needs("a:1", without(*pattern))))
    repository.publish("a:1", project(needs("c:1")))
    assert jars(repository) == {"root-1.jar", "a-1.jar"}


def test_an_exclusion_does_not_reach_other_branches(repository: LocalRepository) -> None:
    repository.publish("root:1", project(needs("a:1", without("g", "c")), needs("b:1")))
    repository.publish("a:1", project(needs("c:1")))
    repository.publish("b:1", project(needs("c:2")))
    repository.publish("c:2")
    assert jars(repository) == {"root-1.jar", "a-1.jar", "b-1.jar", "c-2.jar"}


def test_a_parent_gives_versions_dependencies_and_properties_that_its_child_may_change(
    repository: LocalRepository,
) -> None:
    repository.publish(
        "parent:1",
        "<properties><a>1</a><b>1</b></properties>"
        + managing(needs("a:${a}"), needs("b:${b}", "<scope>test</scope>"))
        + project(needs("c:${project.version}")),
    )
    repository.publish(
        "root:7",
        child_of("parent:1")
        + "<properties><a>${two}</a><two>2</two></properties>"
        + project(needs("a"), needs("b"), needs("d:${project.parent.version}")),
    )
    for name in ("a:2", "c:7", "d:1"):
        repository.publish(name)
    assert jars(repository, "root:7") == {"root-7.jar", "a-2.jar", "c-7.jar", "d-1.jar"}


def test_an_imported_bill_of_materials_gives_versions_after_the_own_ones(repository: LocalRepository) -> None:
    repository.publish("bill:1", managing(needs("a:1"), needs("b:1")))
    bill = needs("bill:1", "<type>pom</type><scope>import</scope>")
    repository.publish("root:1", managing(bill, needs("b:2")) + project(needs("a"), needs("b")))
    repository.publish("a:1")
    repository.publish("b:2")
    assert jars(repository) == {"root-1.jar", "a-1.jar", "b-2.jar"}


def test_classifiers_are_artifacts_of_their_own_and_poms_have_no_jar(repository: LocalRepository) -> None:
    native = "<classifier>linux</classifier>"
    repository.publish(
        "root:1", project(needs("a:1"), needs("a:1", native), needs("p:1", "<type>pom</type>"))
    )
    repository.publish("a:1")
    repository.publish("p:1", project(needs("b:1")))
    repository.publish("b:1")
    assert jars(repository) == {"root-1.jar", "a-1.jar", "a-1-linux.jar", "b-1.jar"}


@pytest.mark.parametrize(("version", "shown"), [("[1,2)", r"'\[1,2\)'"), ("", "''"), ("${x}", r"'\$\{x\}'")])
def test_a_version_that_is_not_plain_is_refused_by_name(
    repository: LocalRepository, version: str, shown: str
) -> None:
    repository.publish("root:1", project(needs(f"a:{version}")))
    with pytest.raises(
        ConfigError, match=rf"^g:root:1 needs a in version {shown}; expected a plain version; install"
    ):
        jars(repository)


def test_a_pom_that_is_not_xml_is_named(repository: LocalRepository) -> None:
    repository.put("g/root/1/root-1.pom", b"<project>")
    with pytest.raises(
        UnavailableError, match=r"^the pom of g:root:1 in file://.* is not valid XML: .*; retry, or inst"
    ):
        jars(repository)
