"""What is in the tree is in the wheel, and the wheel works without the tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.setup

NOT_COPIED = shutil.ignore_patterns("__pycache__")
FROM_OUTSIDE = (
    "tests/unit/connectors",
    "tests/unit/runtime/cli",
    "tests/unit/tidegate/test_keys.py",
    "tests/unit/twophase",
)
SLOW = "service or spark or crash"


def run(command: Sequence[str | Path], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


def package_files(rooms: dict[str, Path]) -> set[str]:
    """The files of the package as they are named after installation."""
    return {
        f"{package.replace('.', '/')}/{path.relative_to(folder).as_posix()}"
        for package, folder in rooms.items()
        for path in folder.rglob("*")
        if path.suffix == ".py" or path.name in ("py.typed", "flink_conf.toml", "pyflink.toml")
    }


def wheel_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def source(root: Path, rooms: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is needed to build, so that building leaves nothing in the checkout."""
    target = tmp_path_factory.mktemp("source")
    for folder in rooms.values():
        shutil.copytree(folder, target / folder.name, ignore=NOT_COPIED)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, target)
    return target


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built straight from the tree."""
    out = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-P", "-m", "build", "--no-isolation", "--wheel", "--outdir", out, source], out)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel; other packages are those of this environment."""
    home = tmp_path_factory.mktemp("installed")
    run([sys.executable, "-P", "-m", "venv", "--without-pip", home], home)
    python = home / "bin" / "python"
    place = Path(run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], home).strip())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    # A plain path: the .pth files in there, the editable install among them, are not read.
    (place / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def test_the_list_of_packages_equals_the_tree(pyproject: dict[str, Any], rooms: dict[str, Path]) -> None:
    in_tree = {
        ".".join((package, *path.parent.relative_to(folder).parts))
        for package, folder in rooms.items()
        for path in folder.rglob("__init__.py")
    }
    listed: list[str] = pyproject["tool"]["setuptools"]["packages"]

    assert set(listed) == in_tree
    assert len(listed) == len(set(listed))


def test_every_folder_with_code_is_a_package(modules: dict[str, Path]) -> None:
    assert (
        sorted({str(path.parent) for path in modules.values() if not (path.parent / "__init__.py").exists()})
        == []
    )


def test_the_wheel_holds_exactly_the_tree(wheel: Path, rooms: dict[str, Path]) -> None:
    assert wheel_files(wheel) == package_files(rooms)


def test_the_source_distribution_builds_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    run(
        [sys.executable, "-P", "-m", "build", "--no-isolation", "--sdist", "--outdir", tmp_path, source],
        tmp_path,
    )
    archive = next(tmp_path.glob("*.tar.gz"))
    pip = [sys.executable, "-P", "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*pip, "--wheel-dir", tmp_path, archive], tmp_path)

    assert wheel_files(next(tmp_path.glob("*.whl"))) == wheel_files(wheel)


@pytest.mark.parametrize("folder", ["backends", "connectors", "runtime", "twophase", "cdc"])
def test_a_room_has_one_import_name_only(folder: str, root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import {folder}"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )

    assert f"No module named '{folder}'" in done.stderr


def test_the_installed_wheel_passes_tests_outside_the_tree(
    installed: Path, root: Path, tmp_path: Path
) -> None:
    shutil.copytree(root / "tests", tmp_path / "tests", ignore=NOT_COPIED)
    shutil.copy(root / "pyproject.toml", tmp_path)
    options = [
        "--import-mode=importlib",
        "-q",
        "-p",
        "no:cacheprovider",
        "--profile=ci",
        "-m",
        f"not ({SLOW})",
    ]

    place = run([installed, "-P", "-c", "import tidegate; print(tidegate.__file__)"], tmp_path)
    output = run([installed, "-P", "-m", "pytest", *options, *FROM_OUTSIDE], tmp_path)

    assert Path(place.strip()).is_relative_to(installed.parent.parent)
    assert " passed" in output
