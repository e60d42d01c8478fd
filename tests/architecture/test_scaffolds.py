"""What `tidegate new` writes is formatted, free of lint and typed, as its author's own tools see it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.runtime.cli.main import main

BIN = Path(sys.executable).parent
RULES = "E,F,W,I,UP,B,C4,SIM,RET,PIE,PT,RUF,TID,PTH,PERF,N"
SKELETONS = {  # arguments, folder, line length
    "files job": (["job", "totals", "--template", "files"], "totals", 88),
    "kafka job": (["job", "totals", "--template", "kafka"], "totals", 88),
    "connector": (["connector", "redis"], "tidegate-redis", 110),
}


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_a_skeleton_is_formatted_linted_and_typed(
    skeleton: str, root: Path, rooms: dict[str, Path], tmp_path: Path
) -> None:
    arguments, folder, length = SKELETONS[skeleton]
    assert main(["new", *arguments, "--to", str(tmp_path)]) == 0
    programs = [path.relative_to(tmp_path / folder) for path in (tmp_path / folder).rglob("*.py")]
    view = tmp_path / "view" / "tidegate"
    shutil.copytree(rooms["tidegate"], view)
    for package, folder_of_room in rooms.items():
        if package != "tidegate":
            (view / package.removeprefix("tidegate.")).symlink_to(folder_of_room)

    width = ["--no-cache", "--line-length", str(length)]
    commands: tuple[list[str | Path], ...] = (
        [BIN / "ruff", "format", "--isolated", *width, "--diff", "."],
        [BIN / "ruff", "check", "--isolated", *width, "--select", RULES, "."],
        [
            BIN / "mypy",
            "--config-file",
            root / "pyproject.toml",
            "--cache-dir",
            tmp_path / "cache",
            *programs,
        ],
    )
    for command in commands:
        done = subprocess.run(
            command,
            cwd=tmp_path / folder,
            env={**os.environ, "MYPYPATH": str(view.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
