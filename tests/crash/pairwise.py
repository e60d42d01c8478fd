"""Rows that hold every two values of different columns together at least once, far fewer than all combinations."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

__all__ = ["pairwise"]

Row = dict[str, Any]
_Pair = tuple[tuple[str, Any], tuple[str, Any]]


def pairwise(
    columns: Mapping[str, Sequence[Any]], possible: Callable[[Row], bool] = lambda row: True, seed: int = 0
) -> list[Row]:
    """Rows that cover all pairs that some possible row has; the same ones for the same seed.

    Each row begins with a pair that is still to be covered, and takes what covers most besides.
    """
    every = [
        row
        for values in product(*columns.values())
        if possible(row := dict(zip(columns, values, strict=True)))
    ]
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
