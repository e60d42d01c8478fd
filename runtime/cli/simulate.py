"""`tidegate simulate`: runs the checkpoint protocol with the crashes, losses and delays of a seed."""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING

from tidegate.errors import InternalError

if TYPE_CHECKING:
    from tidegate.testing.simulation import World

__all__ = ["register", "run"]

# The simulation lies above the runtime and is looked up by name, as any other plug-in: the runtime works without it.
_SIMULATION = "tidegate.testing.simulation"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `simulate` to the commands."""
    parser = subparsers.add_parser(
        "simulate",
        help="run the checkpoint protocol under crashes, lost messages and delays chosen by a seed",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the random choices; default: 0"
    )
    parser.add_argument(
        "--seeds",
        type=_positive,
        default=1,
        metavar="COUNT",
        help="run this many seeds, starting with N, without traces",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the trace of a seed, or that of the first of many that breaks an invariant."""
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        world: World = importlib.import_module(_SIMULATION).World(seed)
        broken = _broken(world)
        if broken is not None or arguments.seeds == 1:
            print("\n".join(world.trace))
        if broken is not None:
            print(f"seed {seed} breaks an invariant: {broken}")
            return 1
    if arguments.seeds == 1:
        print(f"seed {arguments.seed} keeps every invariant; {_end(world)}")
    else:
        print(f"{arguments.seeds} seeds from {arguments.seed} on keep every invariant")
    return 0


def _broken(world: World) -> InternalError | None:
    try:
        world.run()
    except InternalError as error:
        return error
    return None


def _end(world: World) -> str:
    return (
        "all output is visible"
        if world.ended
        else f"it stopped for a decision by an operator: {world.stopped}"
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"got {text}; expected at least 1")
    return number
