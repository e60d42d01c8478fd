"""`import tidegate` against an interpreter that does nothing."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.harness import Bar, Case, Report, compare, main

LIMIT_MS = 60.0


def build(rounds: int) -> Report:
    cases = [
        Case("python -c pass", lambda: run("pass"), {"code": "pass"}),
        Case("import tidegate", lambda: run("import tidegate"), {"code": "import tidegate"}),
    ]
    return compare(
        "import", cases, [Bar("import tidegate", "python -c pass", LIMIT_MS, "ms more")], rounds=rounds
    )


def run(code: str) -> None:
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


if __name__ == "__main__":
    main(build)
