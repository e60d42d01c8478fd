"""What the conformance tests share: running deliberately broken implementations through a kit."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.testing.services.fixtures import kafka as kafka, postgres as postgres, s3 as s3


@pytest.fixture
def broken_clauses(tmp_path: Path) -> Callable[[Path, dict[str, str]], set[str]]:
    """Runs one clause per class of a file, apart from this session; returns those that failed."""

    def run(file: Path, clauses: dict[str, str]) -> set[str]:
        options = ["-c", "/dev/null", "--rootdir", str(tmp_path), "--noconftest", "-p", "no:cacheprovider"]
        nodes = [f"{file}::{name}::{clause}" for name, clause in clauses.items()]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", *options, "-q", "--tb=no", "-rfE", *nodes],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return set(re.findall(r"^(?:FAILED|ERROR) \S*?::(\w+::\w+)", done.stdout, re.MULTILINE))

    return run
