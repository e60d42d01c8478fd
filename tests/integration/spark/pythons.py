"""Environments that executors may have instead of the one that runs the tests."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

__all__ = ["empty", "of_another_minor", "packed", "run", "with_paths"]

ROOT = Path(__file__).parents[3]


def run(*command: str | Path) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-12000:]}{done.stderr[-4000:]}"
    return done.stdout


def empty(home: Path) -> tuple[Path, Path]:
    """An interpreter that finds nothing but what Python brings along, and where its packages would be."""
    run(sys.executable, "-P", "-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    place = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    return python, Path(place.strip())


def with_paths(home: Path, *before: str | Path) -> tuple[Path, Path]:
    """An interpreter that finds what this one finds, but first what lies in some other directories."""
    python, place = empty(home)
    run(sys.executable, "-P", ROOT / ".ci" / "view.py")
    paths = [*map(str, before), str(ROOT / ".view"), sysconfig.get_path("purelib")]
    # Plain paths, in this order: the .pth files in there, the editable install among them, are not read.
    (place / "others.pth").write_text("\n".join(paths) + "\n", encoding="utf-8")
    return python, place


def of_another_minor() -> Path:
    """A Python of another minor version: on the path, or beside the one that this environment was made from."""
    minors = [number for number in range(10, 20) if number != sys.version_info.minor]
    beside = Path(sys.base_prefix).parent.glob("*/bin/python3.*")
    on_path = (shutil.which(f"python3.{number}") for number in minors)
    candidates: list[str | Path] = [*filter(None, on_path), *sorted(beside)]
    for candidate in candidates:
        asked = [str(candidate), "-c", "import sys; print(sys.version_info.minor)"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0 and int(done.stdout) in minors:
            return Path(candidate)
    raise AssertionError("this test needs a second Python; install another minor version, such as python3.12")


def packed(home: Path) -> tuple[Path, Path]:
    """An environment with a wheel of this tree and its core libraries, and the archive that venv-pack makes of it."""
    run(sys.executable, "-P", "-m", "venv", home)
    python, wheels = home / "bin" / "python", home.with_name("wheels")
    run(sys.executable, "-P", "-m", "build", "--no-isolation", "--wheel", "--outdir", wheels, _source(home))
    names = [
        re.match(r"[\w-]+", line) for line in metadata.requires("tidegate") or [] if "extra ==" not in line
    ]
    core = [f"{name[0]}=={metadata.version(name[0])}" for name in names if name]
    pip = [str(python), "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "venv-pack", *core, *map(str, wheels.glob("*.whl")))
    archive = home.with_name("environment.tar.gz")
    run(home / "bin" / "venv-pack", "--prefix", home, "--output", archive)
    return python, archive


def _source(home: Path) -> Path:
    """A copy of what is needed to build, so that building leaves nothing in the checkout."""
    target = home.with_name("source")
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    for folder in listed.values():
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target)
    return target
