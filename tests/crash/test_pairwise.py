from __future__ import annotations

from itertools import combinations, product

from tests.crash.pairwise import Row, pairwise

COLUMNS = {"a": range(5), "b": range(3), "c": "xy", "d": range(4)}


def pairs(row: Row) -> set[object]:
    return set(combinations(row.items(), 2))


def test_every_two_values_meet_in_few_rows() -> None:
    rows = pairwise(COLUMNS)

    every = [dict(zip(COLUMNS, values, strict=True)) for values in product(*COLUMNS.values())]
    assert set().union(*map(pairs, rows)) == set().union(*map(pairs, every))
    assert len(every) == 120
    assert 20 <= len(rows) <= 24


def test_a_seed_chooses_the_same_rows_every_time() -> None:
    assert pairwise(COLUMNS, seed=7) == pairwise(COLUMNS, seed=7)
