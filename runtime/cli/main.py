"""`tidegate`: one command, one module per subcommand.

Exit codes: 0 done, 1 failed, 2 bad use, 3 fenced by a newer owner, 4 a decision of an operator is needed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from importlib.metadata import version

from tidegate.errors import TidegateError
from tidegate.runtime.exit_codes import exit_code

__all__ = ["main"]

_COMMANDS = (
    *("run", "explain", "plan", "check", "jobs", "pipelines"),
    *("config", "state", "audit", "demo.command", "dev", "doctor", "new.command", "simulate", "kafka"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
    except TidegateError as error:
        sys.last_value = error  # as Python does for an error that ends a program
        print(f"tidegate: {error}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidegate", description="exactly-once dataflow on one machine or on Spark"
    )
    parser.add_argument("--version", action="version", version=f"tidegate {version('tidegate')}")
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="command")
    for command in _COMMANDS:
        importlib.import_module(f"tidegate.runtime.cli.{command}").register(subparsers)
    return parser


if __name__ == "__main__":
    sys.exit(main())
