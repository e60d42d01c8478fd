"""The type checker and the import contracts really see the code: each plant of ours is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent

# One wrong import for every contract, and the message the contract answers with.
WRONG_IMPORTS = {
    "tidegate/planted_low.py": "import tidegate.backends.spi",
    "tidegate/backends/planted.py": "import tidegate.runtime",
    "tidegate/runtime/planted.py": "import tidegate.backends.rocksdb",
    "tidegate/connectors/print/planted.py": "import tidegate.connectors.collection",
}


@pytest.fixture
def copy(root: Path, rooms: dict[str, Path], tmp_path: Path) -> Path:
    """The package in the layout of the link view, as files of its own."""
    for package, folder in rooms.items():
        target = tmp_path / package.replace(".", "/")
        shutil.copytree(folder, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    return tmp_path


def run(copy: Path, *command: str | Path) -> tuple[int, str]:
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_view_links_every_module(root: Path, modules: dict[str, Path]) -> None:
    subprocess.run([sys.executable, "-P", root / ".ci" / "view.py"], check=True)
    seen = {
        path.resolve()
        for top in (root / ".view" / "tidegate").iterdir()
        for path in (top, *top.rglob("*.py"))
    }

    assert set(modules.values()) <= seen


def test_every_import_contract_finds_a_planted_import(
    copy: Path, root: Path, pyproject: dict[str, Any]
) -> None:
    for name, statement in WRONG_IMPORTS.items():
        (copy / name).write_text(f'"""Planted."""\n\n{statement}\n', encoding="utf-8")

    code, output = run(copy, BIN / "lint-imports", "--config", root / "pyproject.toml", "--no-cache")

    assert code == 1
    for contract in pyproject["tool"]["importlinter"]["contracts"]:
        assert f"{contract['name']} BROKEN" in output
    assert "tidegate.backends.planted -> tidegate.runtime" in output
    assert "tidegate.runtime.planted -> tidegate.backends.rocksdb" in output
    assert "tidegate.connectors.print.planted -> tidegate.connectors.collection" in output
    assert "planted_low" in output


def test_the_type_checker_finds_a_planted_error(copy: Path, root: Path) -> None:
    (copy / "tidegate" / "backends" / "planted.py").write_text(
        "from tidegate.ids import CheckpointId\n\n\ndef next_one(number: CheckpointId) -> str:\n    return number\n",
        encoding="utf-8",
    )

    code, output = run(
        copy, BIN / "mypy", "--config-file", root / "pyproject.toml", "-m", "tidegate.backends.planted"
    )

    assert code == 1
    assert 'Incompatible return value type (got "CheckpointId", expected "str")' in output
