"""Transfers between accounts: whatever is killed, the sum of all balances stays nothing. Crash tests kill it."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state

ACCOUNTS = 31


class Balance(KeyedProcessFunction):
    cents = state.Value(int, default=0)
    moves = state.Value(int, default=0)

    def process_element(self, value: Any, ctx: Any) -> Iterator[dict[str, Any]]:
        account, cents, transfer = value
        self.cents.update(self.cents.value() + cents)
        self.moves.update(self.moves.value() + 1)
        yield {
            "account": account,
            "transfer": transfer,
            "cents": cents,
            "balance": self.cents.value(),
            "move": self.moves.value(),
        }


def legs(transfer: int) -> list[tuple[int, int, int]]:
    """What a transfer takes from an account, and gives to the next one."""
    account, cents = transfer * 7919 % ACCOUNTS, transfer % 13 + 1
    return [(account, -cents, transfer), ((account + 1) % ACCOUNTS, cents, transfer)]


class Read:
    """Makes transfers, and keeps a record of each that was made, by process."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def __call__(self, transfer: int) -> int:
        with (Path(self._directory) / str(os.getpid())).open("a") as file:
            file.write(f"{transfer} {SYSTEM_CLOCK.now_ns()}\n")
        return transfer


def main(directory: str, count: int, rate: float, settings: dict[str, Any]) -> None:
    reads = Path(directory).parent / "reads"
    reads.mkdir(exist_ok=True)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = GeneratorSource(Read(str(reads)), count=count, splits=3, rate_per_second=rate)
    moved = env.from_source(source).uid("transfers").flat_map(legs).key_by(lambda leg: leg[0])
    moved.process(Balance()).uid("balances").sink_to(FileSink(directory)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("bank"))))


if __name__ == "__main__":
    directory, count, rate, settings = sys.argv[1:]
    main(directory, int(count), float(rate), json.loads(settings))
