"""Damage on purpose, to test the audit: one record dropped from the output, another one duplicated."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tidegate.errors import InternalError
from tidegate.runtime.cli.demo.payments import RunningTotal

__all__ = ["Sabotage", "sabotage"]


@dataclass(frozen=True, slots=True)
class Sabotage:
    """The numbers of the two records."""

    dropped: int
    doubled: int


def sabotage(output: Path, chance: random.Random) -> Sabotage:
    """Rewrite the oldest file of the output; of it, the job has nothing left to commit."""
    files = sorted(output.glob("*.jsonl"), key=lambda file: file.stat().st_mtime_ns)
    for file in files:
        lines = file.read_bytes().splitlines(keepends=True)
        if len(lines) > 1:
            dropped, doubled = chance.sample(lines, 2)
            lines.remove(dropped)
            file.write_bytes(b"".join([*lines, doubled]))
            return Sabotage(_id(dropped), _id(doubled))
    raise InternalError(f"{output} has no file with two records after two kills; please report this")


def _id(line: bytes) -> int:
    return msgspec.json.decode(line, type=RunningTotal).id
