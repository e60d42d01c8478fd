"""A fixed list of splits: dealt evenly and repeatably, never lost, never in two places."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.connectors.base import ListEnumerator, RangeSplit
from tidegate.errors import StateFormatError
from tidegate.ids import CheckpointId, SplitId

NOW = CheckpointId(1)


def splits(*names: str) -> list[RangeSplit]:
    return [RangeSplit(SplitId(name), 0, 10) for name in names]


def enumerator(
    deal: Any, some: list[RangeSplit], restored: bytes | None = None
) -> ListEnumerator[RangeSplit]:
    return ListEnumerator(deal, some, RangeSplit, restored)


def test_splits_are_dealt_round_robin_whoever_asks_first(deal: Any) -> None:
    dealer = enumerator(deal, splits("a", "b", "c"))

    dealer.request(1)
    dealer.request(0)

    assert deal.assigned == {0: splits("a", "c"), 1: splits("b")}
    assert deal.complete == [1, 0]


def test_a_reader_without_a_share_is_told_that_nothing_comes(deal: Any) -> None:
    dealer = enumerator(deal, splits("a"))

    dealer.request(1)

    assert deal.assigned == {}
    assert deal.complete == [1]


def test_a_snapshot_holds_what_was_not_handed_out(deal: Any) -> None:
    dealer = enumerator(deal, splits("a", "b", "c"))
    dealer.request(0)

    again = enumerator(deal, [], dealer.snapshot(NOW))
    again.request(0)
    again.request(1)

    assert deal.assigned == {0: splits("a", "c", "b")}


def test_where_a_reader_read_to_outweighs_where_the_list_begins(deal: Any) -> None:
    dealer = enumerator(deal, [], enumerator(deal, splits("a", "b")).snapshot(NOW))
    further = RangeSplit(SplitId("a"), 7, 10)

    dealer.give_back([further])
    dealer.request(0)
    dealer.request(1)

    assert deal.assigned == {0: [further], 1: splits("b")}


def test_splits_given_back_later_are_dealt_again(deal: Any) -> None:
    dealer = enumerator(deal, splits("a", "b"))
    dealer.request(0)
    dealer.request(1)

    dealer.give_back(splits("b"))
    dealer.request(0)

    assert deal.assigned[0] == splits("a", "b")


@pytest.mark.parametrize(
    "data", [b"\xc1", b"\x82\xa1v\x02\xa6splits\x90", b""], ids=["damaged", "newer version", "empty"]
)
def test_a_snapshot_of_another_version_is_refused(deal: Any, data: bytes) -> None:
    with pytest.raises(
        StateFormatError, match=r"list of splits cannot be read .*; expected version 1 with RangeSplit"
    ):
        enumerator(deal, [], data)
