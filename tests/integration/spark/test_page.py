"""The page about Spark shows a program that runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark.md"


@pytest.mark.spark
def test_the_program_on_the_page_runs(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    program = tmp_path / "page.py"
    program.write_text(block)

    done = subprocess.run(
        [sys.executable, "-P", str(program)], capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "['BE', 'BE', 'NOT', 'OR', 'TO', 'TO']\n"
