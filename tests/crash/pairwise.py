"""Rows that hold every two values of different columns together at least once, far fewer than all combinations."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

__all__ = ["pairwise"]

Row = dict[str, Any]
_Pair = tuple[tuple[str, Any], tuple[str, Any]]


def pairwise(columns: Mapping[str, Sequence[Any]], seed: int = 0) -> list[Row]:
    """Rows that cover all pairs; the same ones for the same seed.

    The next row is always one that covers most of what is missing.
    """
    every = [dict(zip(columns, values, strict=True)) for values in product(*columns.values())]
    random.Random(seed).shuffle(every)
    pairs_of = [frozenset(_pairs(row)) for row in every]
    missing = set[_Pair]().union(*pairs_of)
    chosen: list[Row] = []
    while missing:
        best = max(range(len(every)), key=lambda at: len(pairs_of[at] & missing))
        missing -= pairs_of[best]
        chosen.append(every[best])
    return chosen


def _pairs(row: Row) -> list[_Pair]:
    return list(combinations(row.items(), 2))
