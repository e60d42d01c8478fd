"""A test session is honest: whatever did not run fails it, by name, and the summary comes last."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EVADING = {
    "skip": "import pytest\n\n@pytest.mark.skip(reason='later')\ndef test_evades():\n    pass\n",
    "skip-inside": "import pytest\n\ndef test_evades():\n    pytest.skip('later')\n",
    "xfail": "import pytest\n\n@pytest.mark.xfail\ndef test_evades():\n    assert False\n",
    "xpass": "import pytest\n\n@pytest.mark.xfail(strict=False)\ndef test_evades():\n    pass\n",
    "module": "import pytest\n\npytest.importorskip('no_such_library_evades')\n",
}


both = pytest.mark.parametrize("options", [(), ("-n2",)], ids=["alone", "two-processes"])


@pytest.fixture
def session(root: Path, tmp_path: Path) -> Path:
    """An empty project with our pytest settings."""
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    shutil.copy(root / "tests" / "conftest.py", tmp_path / "tests")
    shutil.copy(root / "pyproject.toml", tmp_path)
    return tmp_path


def run(session: Path, *options: str) -> tuple[int, str]:
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=session, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@both
@pytest.mark.parametrize("text", EVADING.values(), ids=EVADING.keys())
def test_a_test_that_does_not_count_fails_the_session_by_name(
    session: Path, text: str, options: tuple[str, ...]
) -> None:
    (session / "tests" / "unit" / "test_it.py").write_text(text, encoding="utf-8")

    code, output = run(session, *options)

    assert code != 0
    assert re.search(
        r"test_it\.py\S* was (skipped|expected to fail); here every test runs and counts", output
    )
    assert "skipped" not in output.splitlines()[-1]
    assert "xfailed" not in output.splitlines()[-1]


@both
def test_seconds_per_folder_come_before_the_summary_line(session: Path, options: tuple[str, ...]) -> None:
    (session / "tests" / "unit" / "test_it.py").write_text("def test_it():\n    pass\n", encoding="utf-8")

    code, output = run(session, *options)

    assert code == 0
    assert re.search(r"^ +\d+\.\d  tests/unit$", output, re.MULTILINE)
    assert re.fullmatch(r"=+ 1 passed in .*", output.splitlines()[-1])


@pytest.mark.parametrize(
    ("options", "examples"), [((), 50), (("--profile=ci",), 50), (("--profile=long",), 2000)]
)
def test_the_profile_decides_how_many_examples_are_tried(
    session: Path, options: tuple[str, ...], examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    (session / "tests" / "unit" / "test_it.py").write_text(
        f"from hypothesis import settings\n\ndef test_it():\n    assert settings().max_examples == {examples}\n",
        encoding="utf-8",
    )

    assert run(session, *options)[0] == 0


def test_continuous_integration_tries_the_same_examples_every_time(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    (session / "tests" / "unit" / "test_it.py").write_text(
        "from hypothesis import settings\n\ndef test_it():\n    assert settings().derandomize\n",
        encoding="utf-8",
    )

    assert run(session)[0] == 0


@both
def test_what_a_marked_test_proved_is_recorded(session: Path, options: tuple[str, ...]) -> None:
    (session / "tests" / "unit" / "test_it.py").write_text(
        "import pytest\n\n@pytest.mark.spec('002/AX-08')\ndef test_it():\n    assert 1 == 2\n",
        encoding="utf-8",
    )

    run(session, *options)

    record = (session / ".cache" / "spec.json").read_text(encoding="utf-8")
    assert '"ids": [\n   "002/AX-08"\n  ]' in record
    assert '"passed": false' in record
