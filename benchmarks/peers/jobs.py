"""What the jobs do to records: plain functions that every system calls, and the numbers they are made from.

Knows the standard library alone, because it is imported where only the other system is installed.
"""

from __future__ import annotations

__all__ = [
    "GAP_MS",
    "JOBS",
    "PERIOD",
    "WINDOW_MS",
    "add",
    "both",
    "is_kept",
    "key_of",
    "payment",
    "shown",
    "stepped",
    "time_of",
]

JOBS = ("chain", "sum", "tumbling", "session")

KEYS = 200
STEP_MS = 100
BURST = 4_000
PAUSE_MS = 200_000
PERIOD = 5 * BURST
"""After this many records everything begins again: a key had 5 sessions of 20 records, and one window of 100."""
WINDOW_MS = PERIOD * STEP_MS + 5 * PAUSE_MS
GAP_MS = 60_000

Payment = tuple[str, int, int]


def stepped(number: int) -> int:
    return number * 2 + 1


def is_kept(number: int) -> bool:
    return number % 5 != 0


def both(number: int) -> list[int]:
    return [number, -number]


def shown(number: int) -> int:
    return number ^ 21


def payment(number: int) -> Payment:
    """Key, amount and time; times pause after each burst of records."""
    return f"user-{number % KEYS}", number % 1_000, number * STEP_MS + number // BURST * PAUSE_MS


def key_of(payment: Payment) -> str:
    return payment[0]


def time_of(payment: Payment) -> int:
    return payment[2]


def add(one: Payment, other: Payment) -> Payment:
    return one[0], one[1] + other[1], max(one[2], other[2])
