"""`make lines` counts every file once, in the row of its package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = '''"""A module.

Two lines of docstring, and a blank one.
"""

import os  # a line of code with a comment is code


def name() -> str:
    # A comment.
    return os.name
'''


@pytest.fixture(scope="module")
def lines(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("lines", root / ".ci" / "lines.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("runtime/job.py", ("runtime", "code")),
        ("runtime/cli/run.py", ("runtime/cli", "code")),
        ("connectors/kafka/README.md", ("connectors/kafka", "code")),
        ("tidegate/testing/simulation/world.py", ("tidegate", "code")),
        ("tests/unit/runtime/cli/test_run.py", ("runtime/cli", "tests")),
        ("tests/crash/conftest.py", ("tests/crash", "tests")),
        ("README.md", ("(root)", "code")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_belongs_to_its_package(lines: ModuleType, path: str, place: tuple[str, str]) -> None:
    assert lines.place(Path(path)) == place


def test_docstrings_and_comments_are_counted_apart_from_code(lines: ModuleType, tmp_path: Path) -> None:
    (module := tmp_path / "module.py").write_text(SOURCE)
    (page := tmp_path / "page.md").write_text("# Title\n\nText.\n")

    assert lines.counted(module, "code") == {"code": 3, "comments": 4}
    assert lines.counted(module, "tests")["tests"] == 3
    assert lines.counted(page, "code") == {"markdown": 2}
