"""Merge of chunks with the log, against a model of a database whose transactions become visible later than they are logged."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from tidegate.cdc.postgres.visibility import TransactionView
from tidegate.cdc.snapshot import LoadedRange, LoadedTable

KEYS, WIDTH, SEEDS = 12, 3, 300


@dataclass
class Transaction:
    """One that writes at most once to each key."""

    xid: int
    writes: dict[int, int | None] = field(default_factory=dict)
    logged: bool = False


@dataclass
class Database:
    """Rows as reads see them, a log in commit order, and the transactions between commit record and visibility."""

    rows: dict[int, int] = field(default_factory=dict)
    log: list[Transaction] = field(default_factory=list)
    open: dict[int, Transaction] = field(default_factory=dict)
    next_xid: int = 100
    locks: dict[int, int] = field(default_factory=dict)

    def begin(self) -> None:
        self.open[self.next_xid] = Transaction(self.next_xid)
        self.next_xid += 1

    def write(self, transaction: Transaction, key: int, value: int | None) -> None:
        """A lock is held until its transaction is visible, so nobody writes on what he cannot see."""
        if transaction.logged or self.locks.get(key, transaction.xid) != transaction.xid:
            return
        self.locks[key] = transaction.xid
        transaction.writes[key] = value

    def commit(self, transaction: Transaction) -> None:
        if not transaction.logged:
            transaction.logged = True
            self.log.append(transaction)

    def show(self, transaction: Transaction) -> None:
        if not transaction.logged:
            return
        del self.open[transaction.xid]
        for key, value in transaction.writes.items():
            del self.locks[key]
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def view(self) -> TransactionView:
        return TransactionView(min(self.open, default=self.next_xid), self.next_xid, tuple(self.open))

    def step(self, chance: random.Random) -> None:
        if not self.open or chance.random() < 0.2:
            self.begin()
        transaction = chance.choice(list(self.open.values()))
        act: Callable[[], None] = chance.choice(
            [
                lambda: self.write(transaction, chance.randrange(KEYS), chance.choice([None, *range(9)])),
                lambda: self.commit(transaction),
                lambda: self.show(transaction),
            ]
        )
        act()


class Target:
    """Takes changes; refuses any that does not continue what it has."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}

    def load(self, key: int, value: int) -> None:
        assert key not in self.rows, f"key {key} was read although it is there"
        self.rows[key] = value

    def apply(self, key: int, value: int | None) -> None:
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value


def prepared(chance: random.Random) -> tuple[Database, int, TransactionView]:
    """A database in the middle of its work, the place in its log where the stream starts, and what is visible there."""
    database = Database()
    for _ in range(chance.randrange(60)):
        database.step(chance)
    logged = [each.xid for each in database.log]
    hidden = tuple(xid for xid in database.open if xid not in logged)
    at_start = TransactionView(min(hidden, default=database.next_xid), database.next_xid, hidden)
    return database, len(database.log), at_start


def usable(view: TransactionView, at_start: TransactionView) -> bool:
    """Whether a read sees all that the log does not send."""
    return not any(map(at_start.contains, view.in_progress))


@dataclass(frozen=True)
class UpTo:
    """The usual watermark: a read has seen all that is in the log by now."""

    position: int

    def contains(self, transaction: int) -> bool:
        return transaction <= self.position


def load_and_follow(seed: int, *, by_position: bool = False, check: bool = True) -> None:
    """Read all chunks while others write, then follow the log, and compare."""
    chance = random.Random(seed)
    database, passed, at_start = prepared(chance)
    target, ranges = Target(), list[LoadedRange]()
    for low in range(0, KEYS, WIDTH):
        while check and not usable(database.view(), at_start):
            database.step(chance)
        for key, value in database.rows.items():
            if low <= key < low + WIDTH:
                target.load(key, value)
        view = UpTo(len(database.log)) if by_position else database.view()
        ranges.append(LoadedRange(None if low + WIDTH >= KEYS else low + WIDTH - 1, view))
        for _ in range(chance.randrange(20)):
            database.step(chance)
    loaded = LoadedTable(ranges)
    for transaction in list(database.open.values()):
        database.commit(transaction)
        database.show(transaction)
    for position, transaction in enumerate(database.log[passed:], passed + 1):
        for key, change in transaction.writes.items():
            if not loaded.contains(key, position if by_position else transaction.xid):
                target.apply(key, change)
    assert target.rows == database.rows


def failures(run: Callable[[int], None]) -> Iterator[int]:
    for seed in range(SEEDS):
        try:
            run(seed)
        except AssertionError:
            yield seed


@pytest.mark.parametrize("start", range(0, SEEDS, 50))
def test_chunks_that_are_read_before_the_log_is_followed_give_the_table(start: int) -> None:
    for seed in range(start, start + 50):
        load_and_follow(seed)


def test_positions_in_the_log_instead_of_visibility_lose_updates() -> None:
    assert any(failures(lambda seed: load_and_follow(seed, by_position=True)))


def test_a_read_that_does_not_see_what_the_log_does_not_send_is_caught() -> None:
    assert any(failures(lambda seed: load_and_follow(seed, check=False)))
