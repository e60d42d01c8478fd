"""The connector that the page about connectors builds passes the kit, in a hundred lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "connectors.md"
BLOCK = re.compile(r"^```python(?: run)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_connector_of_the_tutorial_passes_the_kit(tmp_path: Path) -> None:
    connector, _, kit, *_ = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    (tmp_path / "sqlite_connector.py").write_text(connector, encoding="utf-8")
    (tmp_path / "test_sqlite.py").write_text(kit, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    passed = re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 30


def test_the_connector_of_the_tutorial_has_about_a_hundred_lines() -> None:
    connector = BLOCK.findall(PAGE.read_text(encoding="utf-8"))[0]

    lines = [
        line for line in connector.splitlines() if line.strip() and not line.startswith(("from", "import"))
    ]
    assert len(lines) <= 100
