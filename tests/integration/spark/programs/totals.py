"""Running totals over a generated stream; every row says which processes it passed. Run as a script it reads its
settings from the command line and prints the result."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidegate.clock import SYSTEM_CLOCK
from tidegate.common import Types
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)


class Totals(KeyedProcessFunction):
    def __init__(self, begin: Callable[[int], Any]) -> None:
        self.begin = begin

    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), 0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[dict[str, Any]]:
        self.begin(self.index)
        self.total.update(self.total.value() + value["amount"])
        yield {**value, "total": self.total.value(), "worked_by": os.getpid()}


def payment(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "account": f"account-{number * 7919 % 97}",
        "amount": number % 13 + 1,
        "read_by": os.getpid(),
    }


def build(
    directory: str,
    count: int,
    settings: dict[str, Any],
    rate: float = 0,
    before: Callable[[Any], Any] = lambda value: value,
    behind: Callable[[int], Any] = lambda index: None,
) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    stream = env.from_source(
        GeneratorSource(payment, count=count, splits=3, rate_per_second=rate or None)
    ).map(before)
    totals = stream.key_by(lambda value: value["account"]).process(Totals(behind))
    totals.sink_to(FileSink(directory)).uid("files")
    return env


def run(*arguments: Any, **functions: Any) -> Any:
    return build(*arguments, **functions).execute("totals")


def straggling(flag: Path) -> Callable[[int], None]:
    """Makes the first task behind the exchange that comes along slow, in one record, and says when that is over."""

    def begin(index: int) -> None:
        try:
            flag.touch(exist_ok=False)
        except FileExistsError:
            return
        SYSTEM_CLOCK.sleep(4)
        flag.with_name(f"{flag.name}-and-over").touch()

    return begin


def noting(places: Path) -> Callable[[int], None]:
    """Writes down in which executor each subtask behind the exchange gets its records."""

    def begin(index: int) -> None:
        with places.open("a") as file:
            file.write(f"{index} {os.environ['SPARK_LOCAL_DIRS']}\n")

    return begin


def main(directory: str, count: str, settings: str, rate: str) -> None:
    functions = {}
    if flag := os.environ.get("TOTALS_STRAGGLER"):
        functions = {"behind": straggling(Path(flag))}
    if places := os.environ.get("TOTALS_PLACES"):
        functions = {"behind": noting(Path(places))}
    result = run(directory, int(count), json.loads(settings), float(rate), **functions)
    print(json.dumps(dataclasses.asdict(result)))


if __name__ == "__main__":
    main(*sys.argv[1:])
