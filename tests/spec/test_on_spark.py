"""What is listed as shown on Spark is: some test of it runs there."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
COLLECT = """
import json, sys
import pytest

class Cited:
    def pytest_collection_finish(self, session):
        on_spark = [item for item in session.items if item.get_closest_marker("spark")]
        self.ids = sorted({each for item in on_spark for mark in item.iter_markers("spec") for each in mark.args})

cited = Cited()
code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[cited])
print()
print(json.dumps([int(code), cited.ids]))
"""


def test_every_example_that_is_listed_for_spark_has_a_test_that_runs_there() -> None:
    folders = ("tests/unit/runtime/stream", "tests/integration/spark")
    command = [sys.executable, "-P", "-c", COLLECT, *folders]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    code, cited = json.loads(done.stdout.splitlines()[-1])
    listed = tomllib.loads((ROOT / "tests" / "spec" / "examples.toml").read_text(encoding="utf-8"))
    examples = listed["spark"]["examples"]

    assert code == 0
    assert [each for each in examples if each not in cited] == []
    assert [each for each in examples if each not in listed["examples"]] == []
