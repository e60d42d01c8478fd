from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

pytestmark = pytest.mark.service

COMMAND = """
import argparse, sys
from tidegate.runtime.cli import dev
parser = argparse.ArgumentParser()
dev.register(parser.add_subparsers())
arguments = parser.parse_args()
sys.exit(arguments.run(arguments))
"""
READY = " is ready on 127.0.0.1:"


@contextmanager
def dev(*words: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """`tidegate dev ...` with its servers below `folder`."""
    command = [sys.executable, "-P", "-c", COMMAND, "dev", *words]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "TMPDIR": str(folder)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        yield process


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory that a server running as another user may enter."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tidegate-dev-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def read_until_ready(output: IO[str]) -> int:
    for line in output:
        if READY in line:
            return int(line.partition(READY)[2].partition(";")[0])
    raise AssertionError("it ended before it was ready")
