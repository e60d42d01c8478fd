"""Setting up recovers from whatever interrupted it, and says plainly what a machine lacks.

The scripts of `.ci/` run in a project of their own whose build needs no download and can be held still.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.setup

BACKEND = """
import os, signal, zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    if "GATE" in os.environ:
        with open(os.environ["GATE"], "w") as gate:
            gate.write("installing")
        signal.pause()
    info = "tidegate-1.dist-info"
    with zipfile.ZipFile(os.path.join(wheel_directory, "tidegate-1-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("tidegate.pth", os.getcwd())
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: tidegate\\nVersion: 1\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return "tidegate-1-py3-none-any.whl"
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "tidegate"
version = "1"
"""
TOOLS = ("bash", "cat", "cut", "dirname", "head", "id", "sed", "sha256sum")


@pytest.fixture
def project(root: Path, tmp_path: Path) -> Path:
    """A small project with our scripts."""
    home = tmp_path / "project"
    shutil.copytree(root / ".ci", home / ".ci", ignore=shutil.ignore_patterns("__pycache__"))
    (home / "requirements").mkdir()
    for name in ("build", "demo", "dev"):
        (home / "requirements" / f"{name}.txt").write_text("# nothing\n", encoding="utf-8")
    (home / "tidegate").mkdir()
    (home / "tidegate" / "__init__.py").touch()
    (home / "backend.py").write_text(BACKEND, encoding="utf-8")
    (home / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    return home


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A PATH with the tools of any machine and no Python, no Java and no apt-get."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool) or tool)
    return folder


def program(path: Path, *lines: str) -> None:
    """Put a shell program of ours at `path`."""
    path.unlink(missing_ok=True)
    path.write_text("\n".join(("#!/bin/bash", *lines)), encoding="utf-8")
    path.chmod(0o755)


def script(project: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    merged = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "JAVA_HOME")} | env
    return subprocess.run(
        [project / ".ci" / command[0], *command[1:]], env=merged, capture_output=True, text=True, check=False
    )


def set_up(project: Path, profile: str = "demo", **env: str) -> str:
    done = script(project, "setup", profile, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    (stamp,) = (project / ".venv").glob(".stamp-*")
    assert stamp.name.startswith(f".stamp-{profile}-")
    return done.stdout


@pytest.fixture
def interrupted(project: Path, tmp_path: Path) -> Path:
    """The project after its set-up was killed while it installed."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    setup = subprocess.Popen(
        [project / ".ci" / "setup", "demo"], env=os.environ | {"GATE": str(gate)}, start_new_session=True
    )
    try:
        assert gate.read_text(encoding="utf-8") == "installing"
    finally:
        os.killpg(setup.pid, signal.SIGKILL)
        setup.wait()
    return project


def test_set_up_without_a_home_happens_once_and_follows_the_lock(project: Path) -> None:
    assert "creating .venv" in set_up(project, HOME="")
    assert set_up(project, HOME="") == ""

    (project / "requirements" / "demo.txt").write_text("# changed\n", encoding="utf-8")

    assert "updating .venv to requirements/demo.txt" in set_up(project)


def test_an_environment_for_development_serves_the_demo(project: Path) -> None:
    set_up(project, "dev")

    assert script(project, "setup", "demo").stdout == ""


@pytest.mark.crash
def test_set_up_killed_half_way_starts_anew(interrupted: Path) -> None:
    leftover = interrupted / ".venv" / "leftover"
    leftover.touch()
    assert list((interrupted / ".venv").glob(".stamp-*")) == []

    assert "creating .venv" in set_up(interrupted)
    assert not leftover.exists()


def test_a_broken_interpreter_is_replaced(project: Path) -> None:
    set_up(project)
    (project / ".venv" / "bin" / "python").unlink()
    (project / ".venv" / "bin" / "python").symlink_to("/nonexistent/python")

    assert "creating .venv" in set_up(project)


def test_an_unknown_profile_is_refused(project: Path) -> None:
    done = script(project, "setup", "huge")

    assert done.returncode == 1
    assert "unknown profile 'huge'; expected dev or demo" in done.stderr


def test_an_old_python_is_named_with_the_command_that_helps(project: Path, bare_path: Path) -> None:
    program(bare_path / "python3", "[ $1 = --version ] && echo Python 3.9.2 && exit 0", "exit 1")

    done = script(project, "setup", PATH=str(bare_path))

    assert done.returncode == 1
    assert "Python 3.11 or newer is missing; got: Python 3.9.2" in done.stderr
    assert "apt-get install -y python3 python3-venv" in done.stderr


def test_a_python_without_venv_is_named_with_the_command_that_helps(project: Path, bare_path: Path) -> None:
    program(bare_path / "python3", "[[ $2 == *ensurepip* ]] && exit 1", "[ $1 = -c ] || echo Python 3.11.2")

    done = script(project, "setup", PATH=str(bare_path))

    assert done.returncode == 1
    assert "Python 3.11.2 comes without the module venv" in done.stderr
    assert "apt-get install -y python3-venv" in done.stderr


def java_says(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


@pytest.mark.parametrize(
    ("version", "enough"), [("1.8.0_392", False), ("11.0.2", False), ("17.0.15", True), ("21", True)]
)
def test_java_is_asked_for_its_version(project: Path, bare_path: Path, version: str, enough: bool) -> None:
    program(bare_path / "java", java_says(version))

    assert (script(project, "java", PATH=str(bare_path)).returncode == 0) is enough


@pytest.mark.parametrize(("user", "installed"), [(0, True), (1000, False)], ids=["root", "somebody"])
def test_only_root_installs_a_missing_java(
    project: Path, bare_path: Path, user: int, installed: bool
) -> None:
    program(bare_path / "id", f"echo {user}")
    program(bare_path / "fake-java", java_says("17.0.15"))
    program(
        bare_path / "apt-get",
        f'echo "$@" >> {project}/calls',
        f'[ "$1" = update ] || {shutil.which("cp")} {bare_path}/fake-java {bare_path}/java',
    )

    done = script(project, "java", PATH=str(bare_path))

    assert (done.returncode == 0) is installed
    if installed:
        update, install = (project / "calls").read_text(encoding="utf-8").splitlines()
        assert update.startswith("update")
        assert install == "install -y -qq --no-install-recommends openjdk-17-jre-headless"
    else:
        assert not (project / "calls").exists()


def test_a_machine_without_java_and_apt_is_told_one_command(project: Path, bare_path: Path) -> None:
    done = script(project, "java", PATH=str(bare_path))

    assert done.returncode == 1
    assert "run: sudo apt-get install -y --no-install-recommends openjdk-17-jre-headless" in done.stderr
    assert "make demo and make test-fast do not need it" in done.stderr
