"""A batch job of three stages whose last stage fails once; says on disk what was read and what was summed up."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

Total = tuple[str, int]


def note(path: Path, line: object) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def results() -> list[Path]:
    """What the finished stages have made."""
    return sorted(Path(tempfile.gettempdir()).glob("tidegate-results-*/*/*[0-9]"))


def lose() -> None:
    for path in results():
        path.unlink()


def damage() -> None:
    for path in results():
        with path.open("r+b") as file:
            first = file.read(1)[0]
            file.seek(0)
            file.write(bytes([255 - first]))


def failing(witness: Path, how: str) -> Callable[[Total], Total]:
    """Passes totals on; the first time it is called in the job, it fails in a way that `how` names."""

    def once(total: Total) -> Total:
        try:
            with witness.open("x") as mine:
                mine.write(str(os.getpid()))
        except FileExistsError:
            return total
        {"lose": lose, "damage": damage}.get(how, lambda: None)()
        if how == "raise":
            raise ValueError("this happens once")
        os.kill(os.getpid(), signal.SIGKILL)
        return total

    return once


def main(directory: str, count: int, settings: dict[str, Any], how: str) -> None:
    beside = Path(directory).parent
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)

    def payment(number: int) -> Total:
        note(beside / "reads", number)
        return f"account-{number % 17}", number

    def summed(total: Total) -> Total:
        note(beside / "sums", total[0])
        return total

    payments = env.from_source(GeneratorSource(payment, count=count, splits=3)).set_parallelism(2)
    totals = payments.key_by(lambda paid: paid[0]).sum(1).map(summed)
    failed = totals.rebalance().map(failing(beside / "failed", how))
    failed.map(lambda total: {"account": total[0], "total": total[1]}).sink_to(FileSink(directory)).uid(
        "files"
    )
    print(json.dumps(dataclasses.asdict(env.execute("regions"))))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[4]), sys.argv[5])
