"""`make coverage-spec` reports what the tests proved and shows what they assert."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

PASSING = """
import pytest

@pytest.mark.spec("002/AX-08")
def test_small() -> None:
    assert 1 + 1 == 2

@pytest.mark.spec("001/EX-01")
class TestMany:
    @pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.spec("002/AX-11"))])
    def test_each(self, n: int) -> None:
        with pytest.raises(ZeroDivisionError):
            n / 0
"""
FAILING = """
import pytest

@pytest.mark.spec("002/AX-08")
def test_other() -> None:
    assert 2 == 3
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with our bookkeeping and one file of tests."""
    (tmp_path / "tests" / "spec").mkdir(parents=True)
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    shutil.copy(ROOT / "tests" / "spec" / "examples.toml", tmp_path / "tests" / "spec")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests" / "test_passing.py").write_text(PASSING, encoding="utf-8")
    return tmp_path


def coverage(project: Path, *options: str) -> tuple[int, str]:
    command = [sys.executable, "-P", str(project / ".ci" / "coverage_spec.py"), *options]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def state(output: str, cited: str) -> str:
    (line,) = [line for line in output.splitlines() if line.startswith(cited)]
    return line.split()[1]


def test_ids_with_passing_tests_are_counted(project: Path) -> None:
    code, output = coverage(project)

    assert code == 0
    assert [state(output, cited) for cited in ("002/AX-08", "001/EX-01", "002/AX-11", "002/AX-04")] == [
        "passed",
        "passed",
        "passed",
        "-",
    ]
    assert "001: 1 of 6" in output
    assert "002: 2 of 66" in output


ON_EXECUTORS = """
import pytest

@pytest.mark.spec("002/AX-03")
@pytest.mark.parametrize("where", ["inline", "embedded-2"])
def test_here(where: str) -> None:
    pass

@pytest.mark.spark
@pytest.mark.spec("002/AX-04")
def test_there() -> None:
    pass

@pytest.mark.spec("002/AX-02")
def test_nowhere() -> None:
    pass
"""


def test_the_executors_of_the_tests_are_named_and_who_was_to_run_on_spark_must(project: Path) -> None:
    (project / "tests" / "test_executors.py").write_text(ON_EXECUTORS, encoding="utf-8")
    (project / "tests" / "test_passing.py").unlink()

    code, output = coverage(project)

    def words(cited: str) -> list[str]:
        (line,) = [line for line in output.splitlines() if line.startswith(f"{cited}  ")]
        return line.split()

    assert words("002/AX-03")[1:6] == ["passed", "2", "inline", "embedded", "a"]
    assert words("002/AX-04")[1:5] == ["passed", "1", "spark", "a"]
    assert words("002/AX-02")[1:4] == ["passed", "1", "each"]
    assert code == 1
    assert "002/AX-03 has no test that ran on Spark; expected one" in output
    assert "002/AX-04 has tests" not in output
    assert coverage(project, "--last")[0] == 0, "a run may have been of other tests only"


def test_one_failing_test_fails_its_id_and_the_command(project: Path) -> None:
    (project / "tests" / "test_failing.py").write_text(FAILING, encoding="utf-8")

    code, output = coverage(project)

    assert code == 1
    assert state(output, "002/AX-08") == "FAILED"


def test_the_last_run_is_reported_without_running_anything(project: Path) -> None:
    (project / ".cache").mkdir()
    (project / ".cache" / "spec.json").write_text(
        json.dumps({"tests/x.py::test": {"ids": ["003/EX-01"], "executors": [], "passed": True}}),
        encoding="utf-8",
    )

    code, output = coverage(project, "--last")

    assert code == 0
    assert state(output, "003/EX-01") == "passed"
    assert state(output, "002/AX-08") == "-"


@pytest.mark.parametrize(
    ("cited", "asserted"),
    [
        ("002/AX-08", "assert 1 + 1 == 2"),
        ("001/EX-01", "pytest.raises(ZeroDivisionError)"),
        ("002/AX-11", "pytest.raises(ZeroDivisionError)"),
    ],
    ids=["function", "class", "parameter"],
)
def test_the_assertions_behind_an_id_are_shown(project: Path, cited: str, asserted: str) -> None:
    code, output = coverage(project, "--show", cited)

    assert code == 0
    assert asserted in output


def test_an_id_without_tests_and_an_unknown_one_are_told_apart(project: Path) -> None:
    assert coverage(project, "--show", "002/AX-04") == (
        0,
        "002/AX-04: a connected map turns integers into true and strings into false\nno test cites this id yet\n",
    )
    assert coverage(project, "--show", "002/AX-99")[0] == 2
