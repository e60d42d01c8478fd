"""What `tidegate new connector` writes passes the kit as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.runtime.cli.main import main


def test_a_new_connector_passes_its_own_conformance_tests(tmp_path: Path) -> None:
    assert main(["new", "connector", "light_house", "--to", str(tmp_path)]) == 0
    package = tmp_path / "tidegate-light_house"

    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "tests"],
        cwd=package,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    passed = re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 20
    assert (
        '"light_house.sink" = "tidegate_light_house:light_house_sink"'
        in (package / "pyproject.toml").read_text()
    )


@pytest.mark.parametrize("name", ["Redis", "my-system", "7up", ""], ids=["upper", "hyphen", "digit", "empty"])
def test_a_name_that_no_module_can_have_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "connector", name, "--to", str(tmp_path)]) == 2
    assert f"a connector cannot be called {name!r}; expected lower case letters" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_is_there_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["new", "connector", "redis", "--to", str(tmp_path)])

    assert main(["new", "connector", "redis", "--to", str(tmp_path)]) == 2
    assert "tidegate-redis exists already; remove it, or choose another name" in capsys.readouterr().err
