"""Merge of chunks with the log, against a model of a database whose transactions become visible later than they are logged."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from tidegate.cdc.postgres.visibility import TransactionView
from tidegate.cdc.snapshot import Decision, LoadedRange, LoadedTable, TableLoad, UpTo, View

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
        self.skipped = 0

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


def usable(view: TransactionView, seen: set[int], at_start: TransactionView) -> bool:
    """Whether a read sees all that the log has passed."""
    return all(map(view.contains, seen)) and not any(map(at_start.contains, view.in_progress))


def interleaved(seed: int, bound: Callable[[Database, TransactionView], View], *, check: bool = True) -> None:
    """Read chunks while the log is followed, then compare."""
    chance = random.Random(seed)
    database, passed, at_start = prepared(chance)
    target, load, seen = Target(), TableLoad[tuple[int, int]](), set[int]()
    mark: int | None = None
    while not load.done or passed < len(database.log) or database.open:
        action = chance.random()
        if action < 0.5 and (not load.done or chance.random() < 0.3):
            database.step(chance)
        elif action < 0.6:
            for transaction in list(database.open.values()):
                database.commit(transaction)
                database.show(transaction)
        elif action < 0.7 and mark is None and not load.done:
            view = database.view()
            if not check or usable(view, seen, at_start):
                above = -1 if load.above is None else load.above
                upto = above + WIDTH
                rows = {
                    key: (key, value) for key, value in sorted(database.rows.items()) if above < key <= upto
                }
                load.open(None if upto >= KEYS - 1 else upto, bound(database, view), rows)
                mark = len(database.log)
        elif passed == mark:
            for key, value in load.close():
                target.load(key, value)
            mark = None
        elif passed < len(database.log):
            transaction = database.log[passed]
            passed += 1
            seen.add(transaction.xid)
            for key, change in transaction.writes.items():
                decision, row = load.change(key, identity(bound, transaction, passed))
                if row is not None:
                    target.load(*row)
                if decision is Decision.EMIT:
                    target.apply(key, change)
                target.skipped += decision is Decision.SKIP
    assert target.rows == database.rows


def by_visibility(database: Database, view: TransactionView) -> View:
    return view


def by_position(database: Database, view: TransactionView) -> View:
    """What the usual watermark says: everything in the log by now."""
    return UpTo(len(database.log))


def identity(bound: object, transaction: Transaction, position: int) -> int:
    return position if bound is by_position else transaction.xid


@pytest.mark.parametrize("start", range(0, SEEDS, 50))
def test_chunks_that_are_read_while_the_log_is_followed_give_the_table(start: int) -> None:
    for seed in range(start, start + 50):
        interleaved(seed, by_visibility)


def failures(run: Callable[[int], None]) -> Iterator[int]:
    for seed in range(SEEDS):
        try:
            run(seed)
        except AssertionError:
            yield seed


def test_positions_in_the_log_instead_of_visibility_lose_updates() -> None:
    assert any(failures(lambda seed: interleaved(seed, by_position, check=False)))


def test_a_read_that_does_not_see_what_the_log_has_passed_is_caught() -> None:
    assert any(failures(lambda seed: interleaved(seed, by_visibility, check=False)))


@pytest.mark.parametrize("start", range(0, SEEDS, 50))
def test_chunks_that_are_read_before_the_log_is_followed_give_the_table(start: int) -> None:
    for seed in range(start, start + 50):
        chance = random.Random(seed)
        database, passed, at_start = prepared(chance)
        target, ranges = Target(), list[LoadedRange]()
        for low in range(0, KEYS, WIDTH):
            while not usable(database.view(), set(), at_start):
                database.step(chance)
            for key, value in database.rows.items():
                if low <= key < low + WIDTH:
                    target.load(key, value)
            ranges.append(LoadedRange(None if low + WIDTH >= KEYS else low + WIDTH - 1, database.view()))
            for _ in range(chance.randrange(20)):
                database.step(chance)
        loaded = LoadedTable(ranges)
        for transaction in list(database.open.values()):
            database.commit(transaction)
            database.show(transaction)
        for transaction in database.log[passed:]:
            for key, change in transaction.writes.items():
                if not loaded.contains(key, transaction.xid):
                    target.apply(key, change)
        assert target.rows == database.rows
