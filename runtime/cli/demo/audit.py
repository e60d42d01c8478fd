"""Audit of the demo: finds records that are lost, duplicated or wrong.

The input is generated again, so the audit trusts nothing that the pipeline said. It keeps 13 bytes per record.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from tidegate.runtime.cli.demo.payments import Payments, RunningTotal

__all__ = ["NAMED", "Audit", "Damage", "audit"]

Kind = Literal["lost", "doubled", "wrong"]

NAMED: Final = 10
"""At most this many records are named for each kind of damage."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A record that is not as it should be."""

    kind: Kind
    id: int
    text: str


@dataclass(slots=True)
class Audit:
    """What came out; `declined` payments are filtered on the way and must not be in the output."""

    records_in: int
    declined: int
    records_out: int = 0
    counts: Counter[Kind] = field(default_factory=Counter)
    findings: list[Damage] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Nothing lost, nothing twice, every total right."""
        return not self.counts

    def found(self, kind: Kind, number: int, text: str) -> None:
        """Note damage; only the first records of a kind are named."""
        self.counts[kind] += 1
        if self.counts[kind] <= NAMED:
            self.findings.append(Damage(kind, number, text))


class _Ledger:
    """What each payment's running total must be, and how often it was seen; a count of 0 marks a declined one."""

    def __init__(self, payments: Payments) -> None:
        self.counts = array("I", bytes(4 * payments.count))
        self.cents = array("q", bytes(8 * payments.count))
        self.seen = bytearray(payments.count)
        totals: dict[str, tuple[int, int]] = {}
        for number in range(payments.count):
            payment = payments.payment(number)
            if payment.state == "booked":
                count, cents = totals.get(payment.account, (0, 0))
                total = count + 1, cents + payment.cents
                totals[payment.account] = total
                self.counts[number], self.cents[number] = total

    def lost(self) -> Iterator[int]:
        """Payments that were never seen."""
        return (number for number, count in enumerate(self.counts) if count and not self.seen[number])


def audit(payments: Payments, output: Path) -> Audit:
    """Read everything and say what is wrong."""
    ledger = _Ledger(payments)
    result = Audit(payments.count, sum(not count for count in ledger.counts))
    for file in sorted(output.glob("*.jsonl")):
        with file.open("rb") as lines:
            for index, line in enumerate(lines, 1):
                result.records_out += 1
                _check(line, f"{file.name} line {index}", ledger, payments, result)
    for number in ledger.lost():
        payment = payments.payment(number)
        result.found(
            "lost",
            number,
            f"record {number:,} is lost: account {payment.account}, {payment.cents} cents, is in no file",
        )
    return result


def _check(line: bytes, where: str, ledger: _Ledger, payments: Payments, result: Audit) -> None:
    try:
        total = msgspec.json.decode(line, type=RunningTotal)
    except msgspec.DecodeError as error:
        result.found("wrong", -1, f"{where} is not a running total: {error}")
        return
    number = total.id
    if not 0 <= number < payments.count or not ledger.counts[number]:
        result.found("wrong", number, f"record {number:,} should not be in the output; got it in {where}")
    elif ledger.seen[number]:
        result.found(
            "doubled", number, f"record {number:,} is duplicated: account {total.account}, again in {where}"
        )
    else:
        ledger.seen[number] = 1
        expected = ledger.counts[number], ledger.cents[number]
        account = payments.payment(number).account
        if (total.count, total.cents, total.account) != (*expected, account):
            result.found(
                "wrong",
                number,
                f"record {number:,} has a wrong total in {where}: got {(total.count, total.cents)} "
                f"for account {total.account}, expected {expected} for account {account}",
            )
