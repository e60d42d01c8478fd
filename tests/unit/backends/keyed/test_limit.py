from __future__ import annotations

from tidegate.backends.keyed.limit import RowLimit


def test_without_a_memory_limit_only_the_number_of_rows_counts() -> None:
    limit = RowLimit(500, None)
    limit.saw([bytes(1_000_000)] * 10)
    assert limit.rows == 500


def test_heavy_rows_are_fewer_than_light_ones() -> None:
    light, heavy = RowLimit(100_000, 10_000_000), RowLimit(100_000, 10_000_000)
    light.saw([bytes(100)] * 100)
    heavy.saw([bytes(10_000)] * 100)
    assert light.rows == 10_000_000 // 800
    assert heavy.rows == 10_000_000 // 20_600


def test_what_stands_beside_a_row_counts_with_it() -> None:
    limit = RowLimit(100_000, 10_000_000)
    limit.saw([bytes(100)], [(b"entry", bytes(9_900)), (b"removed", None)])
    assert limit.rows == 10_000_000 // 20_600


def test_rows_that_are_not_stored_yet_tell_nothing() -> None:
    limit = RowLimit(100_000, 10_000_000)
    limit.saw([None, None])
    assert limit.rows == 1_000
    limit.saw([None, bytes(100)])
    assert limit.rows == 10_000_000 // 800


def test_the_limit_follows_rows_that_grow() -> None:
    limit = RowLimit(100_000, 10_000_000)
    limit.saw([bytes(10)] * 20_000)
    for _ in range(200):
        limit.saw([bytes(10_000)] * 1_000)
    assert limit.rows < 500


def test_it_keeps_between_what_a_batch_needs_and_what_was_asked_for() -> None:
    huge, tiny = RowLimit(2_000, 1_000_000), RowLimit(2_000, 100_000_000)
    huge.saw([bytes(1_000_000)])
    tiny.saw([b""])
    assert huge.rows == 100
    assert tiny.rows == 2_000
