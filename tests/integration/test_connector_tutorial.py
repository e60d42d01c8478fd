"""The connector that the page about connectors builds passes the kit, in a hundred lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "connectors.md"
BLOCK = re.compile(r"^```python(?: run)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def passed(directory: Path, files: dict[str, str]) -> int:
    """How many tests of these files pass, in a process that knows nothing else."""
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "."],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    count = re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert count is not None
    return int(count[1])


def test_the_connector_of_the_tutorial_passes_the_kit(tmp_path: Path) -> None:
    connector, _, kit, *_ = BLOCK.findall(PAGE.read_text(encoding="utf-8"))

    assert passed(tmp_path, {"sqlite_connector.py": connector, "test_sqlite.py": kit}) >= 30


def test_the_source_that_fetches_passes_the_kit_as_it_is_printed(tmp_path: Path) -> None:
    _, _, behind = PAGE.read_text(encoding="utf-8").partition("\n## A client that waits\n")
    section, _, _ = behind.partition("\n## ")
    source, _, kit = BLOCK.findall(section)

    assert passed(tmp_path, {"pages_connector.py": source, "test_pages.py": kit}) >= 19


def test_the_connector_of_the_tutorial_has_about_a_hundred_lines() -> None:
    connector = BLOCK.findall(PAGE.read_text(encoding="utf-8"))[0]

    lines = [
        line for line in connector.splitlines() if line.strip() and not line.startswith(("from", "import"))
    ]
    assert len(lines) <= 100
