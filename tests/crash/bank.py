"""The bank, killed and audited: transfers conserve the sum, and the output is that of a run without failures."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.crash.conftest import Job, retained_by, splits_of
from tests.crash.programs.bank import legs

__all__ = ["Bank"]

PROGRAM = Path(__file__).parent / "programs" / "bank.py"
COUNT, RATE = 1_200, 3_000.0
SETTINGS = {"execution.checkpointing.interval": "40 ms", "state.checkpoints.num-retained": 1_000}


class Bank(Job):
    """A bank with its own directories; `settings` come on top of frequent checkpoints that are all kept."""

    def __init__(
        self, directory: Path, settings: dict[str, Any], count: int = COUNT, rate: float = RATE
    ) -> None:
        directory.mkdir()
        super().__init__(
            directory, {**SETTINGS, **settings}, PROGRAM, rate=rate, count=count, pipeline="bank"
        )

    def beside(self, name: str, settings: dict[str, Any]) -> Bank:
        """The same program with directories of its own, and other settings."""
        return Bank(self.directory.parent / name, self.settings | settings, self.count, self.rate)

    def audit(self) -> list[str]:
        """What differs from a run without failures."""
        rows = [json.loads(line) for line in self.written().elements()]
        wanted = Counter((account, cents, n) for n in range(self.count) for account, cents, n in legs(n))
        seen = Counter((row["account"], row["cents"], row["transfer"]) for row in rows)
        wrong = [f"{leg} is missing" for leg in (wanted - seen).elements()]
        wrong += [f"{leg} is there twice" for leg in (seen - wanted).elements()]
        balances = dict(_balances(rows))
        wrong += [f"account {account}: {why}" for account, why in balances.items() if isinstance(why, str)]
        if not wrong and sum(map(int, balances.values())) != 0:
            wrong.append(f"the bank holds {sum(map(int, balances.values()))}")
        return wrong

    def lost(self) -> list[str]:
        """What is missing of the output."""
        return [wrong for wrong in self.audit() if wrong.endswith("is missing")]

    def went_on(self) -> dict[str, int]:
        """For each part of the input the first number that the last process that read it has read."""
        first: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
        for path in (self.directory / "reads").iterdir():
            for line in path.read_text().splitlines():
                number, moment = map(int, line.split())
                mine = first[f"{number * 3 // self.count}/3"]
                mine.setdefault(int(path.name), (moment, number))
        return {part: max(by_process.values())[1] for part, by_process in first.items()}

    def resumed(self) -> bool:
        """Whether the last processes went on from some decided checkpoint; parts that were read to their ends are in none."""
        first = self.went_on().items()
        return any(kept and kept.items() <= first for kept in self.positions())

    def positions(self) -> list[dict[str, int]]:
        """Where each decided checkpoint would go on, in every part of the input that is not read to its end."""
        return [{split.id: split.next for split in splits_of(kept)} for kept in retained_by(self)]


def _balances(rows: list[dict[str, Any]]) -> dict[int, int | str]:
    """The last balance of each account, or what is wrong with those before."""
    of_account: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        of_account[row["account"]].append(row)
    return {account: _balance(moves) for account, moves in of_account.items()}


def _balance(moves: list[dict[str, Any]]) -> int | str:
    balance = 0
    for number, move in enumerate(sorted(moves, key=lambda move: int(move["move"])), 1):
        balance += move["cents"]
        if (move["move"], move["balance"]) != (number, balance):
            return (
                f"move {move['move']} comes to {move['balance']}; expected move {number} to come to {balance}"
            )
    return balance
