"""`tidegate explain job.py`: shows the plan of a program as text, diagram or code, without running it.

The program itself does run up to its first `execute`: that is how it says what it consists of.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tidegate.errors import ConfigError
from tidegate.runtime.cli import run as run_command

if TYPE_CHECKING:
    from tidegate.ids import OperatorUid
    from tidegate.runtime.explain import Explained
    from tidegate.runtime.launch import Launch

__all__ = ["explain", "launch_of", "register"]


class _Taken(BaseException):
    """Ends a program where it would start; no error, so that no program handles it as one."""

    def __init__(self, launch: Launch) -> None:
        super().__init__()
        self.launch = launch


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `explain` to the commands."""
    parser = subparsers.add_parser("explain", help="show what a program would do, without running it")
    _add_flags(parser)
    run_command.add_program(parser)
    parser.set_defaults(run=explain)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--code", action="store_true", help="show the generated code of each chain")
    form.add_argument("--svg", metavar="FILE", type=Path, help="write a diagram as SVG")
    form.add_argument("--json", action="store_true", help="show the plan as JSON for Flink's visualizer")


def explain(arguments: argparse.Namespace) -> int:
    """Explain the first program that the file executes.

    Raises:
        ConfigError: the file does not exist or executes no program, or the program is wrong.
    """
    # The engine is loaded by this command alone, so that the others start quickly.
    from tidegate.runtime.explain import explained, loops, picture, text
    from tidegate.runtime.graph.plan import plan_json

    run_command.take_flags(arguments, _add_flags)
    launch = launch_of(arguments)
    program = explained(launch)
    if arguments.svg is not None:
        arguments.svg.write_text(picture(program), encoding="utf-8")
        print(f"{program.name}: picture in {arguments.svg}")
    elif arguments.code:
        print(loops(program), end="")
    elif arguments.json:
        print(plan_json(program.steps))
    else:
        print(text(program, _states(program)), end="")
    return 0


def _states(program: Explained) -> dict[OperatorUid, tuple[str, ...]]:
    """The names of the states that functions ask for when they are opened; those that cannot be opened say none."""
    from tidegate import registry
    from tidegate.backends.storage import MemoryStorage, StorageFiles
    from tidegate.runtime.preflight.trial import tried

    backend = registry.load("tidegate.backends", "heap")()
    files = StorageFiles(MemoryStorage().blobs, "")
    return {
        node.uid: tuple(sorted(result.states))
        for vertex in program.job.vertices.values()
        for node, result in tried(vertex, {}, files, backend)
    }


def launch_of(arguments: argparse.Namespace) -> Launch:
    """What a program would start first; raises as `explain` does."""
    from tidegate.runtime.launch import instead_of_running

    try:
        with instead_of_running(_take):
            run_command.run(arguments)
    except _Taken as taken:
        return taken.launch
    raise ConfigError(
        f"{arguments.program[0]} ended without executing a program; expected a call of env.execute()"
    )


def _take(launch: Launch) -> NoReturn:
    raise _Taken(launch)
