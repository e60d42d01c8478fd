"""Run the golden programs under PyFlink and keep what they print.

    /tmp/pyflink/bin/python tests/golden/pyflink/record.py [name ...]

Needs PyFlink (see README.md) and nothing of ours. Programs share one JVM, whose standard output is ours.
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
import traceback
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent / "programs"


def main(names: list[str]) -> int:
    """Record the named programs, or all of them; the answer is the exit code."""
    # Flink starts `python` to ask where PyFlink is.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    programs = [program for program in sorted(PROGRAMS.glob("*.py")) if program.stem in names or not names]
    failed = 0
    with tempfile.TemporaryFile() as output:
        os.dup2(output.fileno(), 1)
        for program in programs:
            start = os.fstat(1).st_size
            try:
                runpy.run_path(str(program), run_name="__main__")
            except Exception:
                failed += 1
                reason = traceback.format_exc()
                print(f"FAILED {program.stem}: {reason}", file=sys.stderr, flush=True)
                continue
            sys.stdout.flush()
            program.with_suffix(".out").write_bytes(os.pread(1, os.fstat(1).st_size - start, start))
            print(program.stem, file=sys.stderr, flush=True)
    print(f"{len(programs) - failed} recorded, {failed} failed", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
