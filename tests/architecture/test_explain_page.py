"""The page about explanations shows what is printed and drawn today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "socket_word_count.py"


def explain(directory: Path, *form: str) -> str:
    command = [sys.executable, "-P", "-m", "tidegate.runtime.cli.main", "explain", *form]
    program = ["-D", "parallelism.default=2", str(EXAMPLE), "--", "--port", "9000"]
    done = subprocess.run([*command, *program], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_words_on_the_page_are_those_printed(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")

    assert f"```\n{explain(tmp_path)}```\n" in page


def test_picture_on_the_page_is_the_one_drawn(tmp_path: Path) -> None:
    explain(tmp_path, "--svg", "plan.svg")

    assert (tmp_path / "plan.svg").read_bytes() == (ROOT / "docs" / "explain.svg").read_bytes()
