"""Run every benchmark in a process of its own; fails if one of them misses a bar."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all; returns how many failed."""
    known = sorted(path.stem for path in FOLDER.glob("bench_*.py"))
    chosen = [name for name in known if not names or name.removeprefix("bench_") in names]
    codes = [
        subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}"], cwd=FOLDER.parent, check=False
        ).returncode
        for name in chosen
    ]
    return sum(code != 0 for code in codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
