"""A sink function with transactions, and the program in which it is killed at a step of its own choosing."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.twophase.function import TwoPhaseCommitSinkFunction
from tidegate.twophase.spi import CommitAnswer


class Files(TwoPhaseCommitSinkFunction[str]):
    """A transaction is a hidden file of lines; committed it has a visible name. Dies once at `deadly`, if given."""

    def __init__(self, directory: str, deadly: str = "") -> None:
        self.directory = directory
        self.deadly = deadly

    def begin_transaction(self) -> str:
        Path(self.directory).mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix="part-", dir=self.hidden())
        os.close(handle)
        self.reached("begin_transaction")
        return Path(path).name

    def invoke(self, transaction: str, value: Any, context: Any) -> None:
        with (self.hidden() / transaction).open("a") as file:
            file.write(json.dumps(value) + "\n")
        self.reached("invoke")

    def pre_commit(self, transaction: str) -> None:
        with (self.hidden() / transaction).open("a") as file:
            os.fsync(file)
        self.reached("pre_commit")

    def commit(self, transaction: str) -> CommitAnswer:
        self.reached("before commit")
        answer = self.move(transaction)
        self.reached("commit")
        return answer

    def recover_and_commit(self, transaction: str) -> CommitAnswer:
        self.reached("before recover_and_commit")
        answer = self.move(transaction)
        self.reached("recover_and_commit")
        return answer

    def abort(self, transaction: str) -> None:
        (self.hidden() / transaction).unlink(missing_ok=True)
        self.reached("abort")

    def recover_and_abort(self, transaction: str) -> None:
        self.reached("before recover_and_abort")
        (self.hidden() / transaction).unlink(missing_ok=True)
        self.reached("recover_and_abort")

    def hidden(self) -> Path:
        path = Path(self.directory, ".open")
        path.mkdir(exist_ok=True)
        return path

    def move(self, transaction: str) -> CommitAnswer:
        final = Path(self.directory, transaction)
        if final.exists():
            return CommitAnswer.ALREADY_COMMITTED
        (self.hidden() / transaction).rename(final)
        return CommitAnswer.COMMITTED

    def reached(self, step: str) -> None:
        # With something visible there is a decided checkpoint, which knows of an open transaction.
        due = "recover" in step or any(Path(self.directory).glob("part-*"))
        witness = self.hidden() / f"died at {step}"
        if due and step in self.deadly.split(",") and not witness.exists():
            witness.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def main(directory: str, count: int, rate: float, settings: dict[str, Any], deadly: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = GeneratorSource(lambda number: {"id": number}, count=count, splits=2, rate_per_second=rate)
    env.from_source(source).rebalance().add_sink(Files(directory, deadly)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4]), sys.argv[5])
