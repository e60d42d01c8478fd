"""What `tidegate new` writes is complete: a connector passes the kit, a job its test, as they are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tidegate.runtime.cli.main import main


def passed(folder: Path) -> int:
    """How many tests of a skeleton pass; all that it has."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "tests"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    found = re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_a_new_connector_passes_its_own_conformance_tests(tmp_path: Path) -> None:
    assert main(["new", "connector", "light_house", "--to", str(tmp_path)]) == 0
    package = tmp_path / "tidegate-light_house"

    assert passed(package) >= 20
    assert (
        '"light_house.sink" = "tidegate_light_house:light_house_sink"'
        in (package / "pyproject.toml").read_text()
    )


def test_a_new_connector_is_a_package_ready_to_publish(tmp_path: Path) -> None:
    assert main(["new", "connector", "light_house", "--to", str(tmp_path)]) == 0
    package = tmp_path / "tidegate-light_house"
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "-q"]

    subprocess.run(
        [sys.executable, "-P", "-m", "pip", "wheel", *options, "-w", "dist", "."], cwd=package, check=True
    )

    (wheel,) = (package / "dist").iterdir()
    with zipfile.ZipFile(wheel) as built:
        files = built.namelist()
        (metadata,) = (built.read(name).decode() for name in files if name.endswith("/METADATA"))
    assert "tidegate_light_house/py.typed" in files
    assert not [name for name in files if name.startswith("tests")]
    needed = re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
    assert [each for each in needed if "extra" not in each] == [f"tidegate>={version('tidegate')}"]
    assert [each for each in needed if "extra" in each] == ['tidegate[testing]; extra == "test"']
    assert "every record once, whatever restarts" in metadata  # the README is its description


def test_the_example_of_a_new_connector_runs(tmp_path: Path) -> None:
    assert main(["new", "connector", "light_house", "--to", str(tmp_path)]) == 0
    package = tmp_path / "tidegate-light_house"
    (program,) = re.findall(
        r"^```python\n(.*?)^```$", (package / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    (package / "example.py").write_text(program)

    done = subprocess.run(
        [sys.executable, "-P", "example.py"],
        cwd=package,
        env={**os.environ, "PYTHONPATH": str(package), "XDG_STATE_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    written = [record for file in (package / "out").glob("*.json") for record in json.loads(file.read_text())]
    assert sorted(written) == sorted(f"record {number}" for number in range(100))


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
    assert "tidegate-redis already exists and is not empty; remove it, or" in capsys.readouterr().err


@pytest.mark.parametrize("template", ["files", "kafka"])
def test_a_new_job_passes_its_own_tests(template: str, tmp_path: Path) -> None:
    assert main(["new", "job", "day-totals", "--template", template, "--to", str(tmp_path)]) == 0

    assert passed(tmp_path / "day-totals") == 2


@pytest.mark.parametrize("template", ["files", "kafka"])
def test_every_step_of_a_new_job_has_a_uid_and_a_name_of_its_own(
    template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["new", "job", "totals", "--template", template, "--to", str(tmp_path)])
    capsys.readouterr()

    assert main(["explain", str(tmp_path / "totals" / "job.py")]) == 0

    shown = capsys.readouterr().out
    assert re.findall(r"^ +\d+  (.*?) +uid (\w+)", shown, re.MULTILINE) == [
        ("Source: payments", "payments"),
        ("totals", "totals"),
        ("Sink: output", "output"),
    ]


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "totals").mkdir()

    assert main(["new", "job", "totals", "--to", str(tmp_path)]) == 0
    assert (tmp_path / "totals" / "job.py").exists()


@pytest.mark.parametrize("there", ["directory", "file"])
def test_what_is_there_is_not_overwritten_by_a_job(
    there: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "totals"
    if there == "directory":
        place.mkdir()
        (place / "notes").write_text("mine")
    else:
        place.write_text("mine")

    assert main(["new", "job", "totals", "--to", str(tmp_path)]) == 2
    assert f"{place} already exists and is not empty; remove it, or choose" in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.rglob("*") if path.is_file()] == ["mine"]


def test_an_unknown_template_is_refused_with_the_nearest_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "job", "totals", "--template", "kafak", "--to", str(tmp_path)]) == 2
    assert (
        "unknown template 'kafak'; did you mean 'kafka'?; expected one of: files, kafka"
        in capsys.readouterr().err
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["Totals", "../totals", "7up", "totals-"])
def test_a_name_that_no_topic_or_project_can_have_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "job", name, "--to", str(tmp_path)]) == 2
    assert f"a job cannot be called {name!r}; expected lower case letters" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
