"""A system that is measured in a process of its own, which stays: lines of JSON go in and come out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

from benchmarks.machine import tree_cpu_seconds

__all__ = ["Served"]

ROOT = Path(__file__).resolve().parent.parent


class Served:
    """The process of `python -m module arguments`; it ends with the block."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.name = " ".join((module.rpartition(".")[2], *arguments))
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the block
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its input ends it
        self._said.close()

    def ask(self, **what: Any) -> Any:
        """Its answer.

        Raises:
            RuntimeError: it has died.
        """
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(json.dumps(what) + "\n")
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            code = self._process.wait()
            self._said.seek(0)
            raise RuntimeError(f"{self.name} ended with {code} at {what}: {self._said.read()[-3_000:]}")
        return json.loads(answer)

    def cpu_s(self) -> float:
        """CPU seconds of the process and of all below it."""
        return tree_cpu_seconds(self._process.pid)
