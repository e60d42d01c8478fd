"""What Spark wrote is read as what any executor wrote, down to the record that made each change."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from typing import Any

import pytest

from tidegate.backends.storage import LocalStorage
from tidegate.backends.timeline import key_of, value_of
from tidegate.elements import RecordOrigin
from tidegate.runtime.checkpoint.timeline import Timeline
from tidegate.runtime.checkpoint.verify import verify

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def test_every_change_is_told_with_the_record_that_made_it(job: Any) -> None:
    job.settings["state.log.granularity"] = "event"
    job.run()
    told: dict[str, list[tuple[int, int]]] = defaultdict(list)

    with Timeline(LocalStorage(job.directory / "state"), "totals") as timeline:
        moments = timeline.moments()
        assert [each for m in moments for each in verify(timeline, m.checkpoint, deep=True)] == []
        for _, each in timeline.history():
            assert isinstance(each.cause, RecordOrigin)
            assert each.change.after is not None
            total = value_of(each.change.state, each.change.after)
            told[key_of(each.change.key)].append((each.cause.position, total))

    assert sorted(number for found in told.values() for number, _ in found) == list(range(job.count))
    for account, found in told.items():
        assert {f"account-{number * 7919 % 97}" for number, _ in found} == {account}
        assert [total for _, total in found] == list(accumulate(number % 13 + 1 for number, _ in found))
