"""A program that ends without `execute()` says so, and one that executes, explains or fails does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from tidegate import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment({{"execution.target": "inline", "pipeline.progress": "off"}})
env.from_collection([1]).map(str).print()
{end}
"""


@pytest.mark.parametrize(
    ("end", "said"),
    [("", True), ("env.execute()", False), ("env.explain()", False), ("raise ValueError", False)],
    ids=["forgotten", "executed", "explained", "failed"],
)
def test_a_program_that_forgets_to_execute_is_told_at_its_end(tmp_path: Path, end: str, said: bool) -> None:
    (tmp_path / "job.py").write_text(PROGRAM.format(end=end))

    run = subprocess.run(
        [sys.executable, "-P", "job.py"],
        cwd=tmp_path,
        env={"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (
        "no job was executed: the program added steps and ended without env.execute()" in run.stderr
    ) is said, run
