"""The memory of an audit does not grow with what it compares."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

AUDIT = """
import sys
from pathlib import Path
from tidegate.runtime.audit import buckets
from tidegate.runtime.cli.main import main
buckets._HELD_BYTES = 1 << 20
code = main(["audit", *sys.argv[1:]])
# Of this program alone; what getrusage says begins with the memory of whoever started it.
(most,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(code, int(most.split()[1]) // 1024)
"""
MOST_MB = 12
"""How much more an audit of five times as much may take; counts in a dictionary would take some 150 bytes a record."""


def audited(directory: Path, records: int) -> tuple[str, int]:
    """The exit code of an audit that finds one record missing, and the most memory it had, in MB."""
    sides = [directory / f"{side}-{records}.jsonl" for side in ("in", "out")]
    for side, first in zip(sides, (0, 1), strict=True):
        side.write_text("".join(f'{{"id":{number}}}\n' for number in range(first, records)))
    done = subprocess.run(
        [sys.executable, "-P", "-c", AUDIT, *map(str, sides)], capture_output=True, text=True, check=True
    )
    *said, last = done.stdout.splitlines()
    assert f"NOT PROVEN: of {records:,} expected records: 1 missing" in said
    code, megabytes = last.split()
    return code, int(megabytes)


def test_memory_is_that_of_a_bucket_and_not_of_all_records(
    tmp_path: Path, profile: Literal["dev", "ci", "long"]
) -> None:
    few = 500_000 if profile == "long" else 40_000

    small, large = audited(tmp_path, few), audited(tmp_path, 5 * few)

    assert (small[0], large[0]) == ("1", "1")
    assert large[1] - small[1] < MOST_MB
