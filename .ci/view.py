"""Link the package as it is installed into `.view/`, for tools that do not follow the folder mapping.

The top-level folders of the repository are subpackages of `tidegate`; mypy, pyright and import-linter look for a
folder `tidegate/` that holds them all. They are pointed at `.view/` instead.
"""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BESIDE = ("tests", "benchmarks", "examples")


def main() -> None:
    """Make the view anew, so that links to files that are gone disappear."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    rooms: dict[str, str] = pyproject["tool"]["setuptools"]["package-dir"]
    view = ROOT / ".view"
    package = view / "tidegate"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for entry in (ROOT / rooms.pop("tidegate")).iterdir():
        if entry.name != "__pycache__":
            (package / entry.name).symlink_to(entry)
    for name, folder in rooms.items():
        (package / name.removeprefix("tidegate.")).symlink_to(ROOT / folder)
    for folder in BESIDE:
        (view / folder).unlink(missing_ok=True)
        (view / folder).symlink_to(ROOT / folder)


if __name__ == "__main__":
    main()
