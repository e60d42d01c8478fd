"""What the documentation says runs, and what it points at is there.

A code block opened with ```` ```python run ```` is executed; the blocks of one file run in order as one program.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted(
    page
    for page in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part == "node_modules" for part in page.relative_to(ROOT).parts[:-1])
)
BLOCK = re.compile(r"^```python run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def runnable(page: Path) -> str:
    return "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name_of)
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    program = tmp_path / "page.py"
    program.write_text(runnable(page), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-P", str(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    targets = [target.partition("#")[0] for target in LINK.findall(text) if "://" not in target]
    missing = [target for target in targets if target and not (page.parent / target).exists()]

    assert missing == []
