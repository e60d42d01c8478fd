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
from unittest.mock import patch

from tidegate.clock import SYSTEM_CLOCK, new_id
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
        GeneratorSource(
            payment,
            count=count,
            splits=int(os.environ.get("TOTALS_SPLITS", "3")),
            rate_per_second=rate or None,
        )
    ).map(before)
    totals = stream.key_by(lambda value: value["account"]).process(Totals(behind))
    totals.sink_to(FileSink(directory)).uid("files")
    return env


def run(*arguments: Any, **functions: Any) -> Any:
    return build(*arguments, **functions).execute("totals")


def straggling(place: Path) -> Callable[[int], None]:
    """The first task behind the exchange that comes along waits; its copy passes."""
    return lambda index: halt(place, "straggler")


def executor() -> int:
    """The Java process behind the process that this one was forked from."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])


def halt(place: Path, name: str) -> None:
    """Say which executor has come here, and wait to be let go; who comes later passes."""
    mine = place / f"{name}-{new_id()}"
    mine.write_text(str(executor()))
    try:
        os.link(mine, place / name)
    except FileExistsError:
        return
    while not (place / "go").exists():
        SYSTEM_CLOCK.sleep(0.02)


def marking(book: Path) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Each execution gives a record another mark, and by that another account; writes down what was marked where."""

    def mark(value: dict[str, Any]) -> dict[str, Any]:
        made = new_id()
        with book.open("a") as lines:
            lines.write(f"{value['id']} {executor()}\n")
        return {**value, "account": f"account-{int(made, 16) % 97}", "mark": made}

    return mark


def waiting(place: Path) -> Callable[[int], None]:
    """The second half of four subtasks behind the exchange waits, once, when it has all of its records."""

    def begin(index: int) -> None:
        if index >= 2:
            halt(place, f"subtask-{index}")

    return begin


def noting(places: Path) -> Callable[[int], None]:
    """Writes down in which executor each subtask behind the exchange gets its records."""

    def begin(index: int) -> None:
        with places.open("a") as file:
            file.write(f"{index} {os.environ['SPARK_LOCAL_DIRS']}\n")

    return begin


def passing(place: Path) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Says that a record in the middle has been read."""

    def note(value: dict[str, Any]) -> dict[str, Any]:
        if value["id"] == 350:
            (place / "middle").touch()
        return value

    return note


def stopping(place: Path) -> Callable[[int], None]:
    """One subtask behind the exchange waits, once, when that record has been read."""

    def begin(index: int) -> None:
        if (place / "middle").exists():
            halt(place, "stopped")

    return begin


def believing(_: Any, outcomes: list[Any]) -> list[Any]:
    """What would be done with an epoch if nobody compared who has consumed what."""
    return [outcome.result for outcome in outcomes]


def main(directory: str, count: str, settings: str, rate: str) -> None:
    functions: dict[str, Callable[..., Any]] = {}
    if flag := os.environ.get("TOTALS_STRAGGLER"):
        functions = {"behind": straggling(Path(flag))}
    if places := os.environ.get("TOTALS_PLACES"):
        functions = {"behind": noting(Path(places))}
    if place := os.environ.get("TOTALS_HALF_THROUGH"):
        functions = {"before": marking(Path(place, "marked")), "behind": waiting(Path(place))}
    if place := os.environ.get("TOTALS_STOPS"):
        functions = {"before": passing(Path(place)), "behind": stopping(Path(place))}
    arguments = directory, int(count), json.loads(settings), float(rate)
    if os.environ.get("TOTALS_BELIEVES"):
        with patch("tidegate.runtime.spark.epochs.winners", believing):
            result = run(*arguments, **functions)
    else:
        result = run(*arguments, **functions)
    print(json.dumps(dataclasses.asdict(result)))


if __name__ == "__main__":
    main(*sys.argv[1:])
