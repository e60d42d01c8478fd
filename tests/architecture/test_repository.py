"""The repository speaks of the product alone, and nothing in it is unfinished."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

PLACES = re.compile(
    r"(?<![\w.])/(?:work|root|home)/\w|\.\./shared|artifactory|\bnexus\b|devpi", re.IGNORECASE
)
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX|HA" + r"CK)\b")
THIS = Path(__file__).name


@pytest.fixture(scope="module")
def texts(root: Path) -> dict[str, str]:
    """Every file that is or would be committed, as text."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    found = {}
    for name in filter(None, listed.stdout.split("\0")):
        path = root / name
        if path.is_file() and path.name != THIS:
            found[name] = path.read_text(encoding="utf-8", errors="replace")
    return found


def lines_with(pattern: re.Pattern[str], texts: dict[str, str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_path_or_host_of_one_machine_is_named(texts: dict[str, str]) -> None:
    assert lines_with(PLACES, texts) == []


def test_nothing_is_left_to_do(texts: dict[str, str]) -> None:
    assert lines_with(UNFINISHED, texts) == []


def test_locked_requirements_name_no_index_and_hash_everything(texts: dict[str, str]) -> None:
    locks = {name: text for name, text in texts.items() if re.fullmatch(r"requirements/\w+\.txt", name)}

    assert locks.keys() == {f"requirements/{name}.txt" for name in ("build", "demo", "dev")}
    for name, text in locks.items():
        assert "://" not in text, name
        assert "--index" not in text, name
        assert "--find-links" not in text, name
        pinned = [line for line in text.splitlines() if re.match(r"[a-z0-9]", line)]
        assert pinned, name
        assert [line for line in pinned if "==" not in line or not line.endswith("\\")] == [], name


@pytest.mark.parametrize(("lock", "extra"), [("demo", "cli"), ("dev", "dev")])
def test_locks_hold_everything_that_is_required(
    root: Path, pyproject: dict[str, Any], lock: str, extra: str
) -> None:
    project = pyproject["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    wanted = {*project["dependencies"], *extras[extra]}
    for own in [requirement for requirement in wanted if requirement.startswith("tidegate[")]:
        wanted.remove(own)
        for other in own.removeprefix("tidegate[").rstrip("]").split(","):
            wanted.update(extras[other])
    text = (root / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([a-z0-9.-]+)==", text, re.MULTILINE))
    names = {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in wanted}

    assert names - pinned == set(), "run make lock"


def test_every_module_and_package_says_what_it_is(trees: dict[str, ast.Module]) -> None:
    silent = [name for name, tree in trees.items() if len(ast.get_docstring(tree) or "") < 12]

    assert silent == []


def test_users_are_never_told_by_an_assertion(trees: dict[str, ast.Module]) -> None:
    told = [
        f"{name}:{node.lineno}"
        for name, tree in trees.items()
        if not name.startswith("tidegate.testing")
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and node.msg is not None
    ]

    assert told == []


def test_ignored_type_errors_name_their_code(texts: dict[str, str]) -> None:
    assert lines_with(re.compile(r"#\s*type:\s*ignore(?!\[)"), texts) == []
