"""Which folder a record goes to."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, cast

import pytest

from tidegate.connectors.files import (
    BucketAssigner,
    BucketContext,
    FunctionBuckets,
    HivePartitions,
    TimeBuckets,
)
from tidegate.elements import Batch
from tidegate.errors import ConfigError, RecordError

NOON = 1_714_564_800_123
"""2024-05-01 12:00 UTC."""


@pytest.mark.parametrize(
    ("buckets", "folder"),
    [
        (TimeBuckets(zone="UTC"), "2024-05-01--12"),
        (TimeBuckets(zone="Europe/Vienna"), "2024-05-01--14"),
        (TimeBuckets("yyyy/MM/dd 'at' HH.mm.ss", "UTC"), "2024/05/01 at 12.00.00"),
        (TimeBuckets("'it''s '''HH%", "UTC"), "it's '12%"),
        (BucketAssigner.date_time_bucket_assigner(timezone_id="UTC"), "2024-05-01--12"),
        (BucketAssigner.base_path_bucket_assigner(), ""),
    ],
    ids=["default", "zone", "pattern", "quotes", "PyFlink's", "base path"],
)
def test_records_are_dealt_by_the_time_they_are_written_at(buckets: BucketAssigner, folder: str) -> None:
    copy = pickle.loads(pickle.dumps(buckets))

    assert copy.deal(Batch(["a", "b"]), NOON, None) == {folder: ["a", "b"]}
    assert copy.get_bucket_id("a", BucketContext(None, NOON, None)) == folder


def test_records_are_dealt_by_their_own_time() -> None:
    buckets = TimeBuckets("HH", "UTC", by="event")

    dealt = buckets.deal(Batch(["a", "b", "c"], [NOON, NOON + 3_600_000, NOON]), 0, None)
    assert dealt == {"12": ["a", "c"], "13": ["b"]}
    with pytest.raises(RecordError, match="record 'a' has no event time to choose its bucket"):
        buckets.deal(Batch(["a"]), 0, None)


@pytest.mark.parametrize(
    ("value", "folder"),
    [
        ({"k": 1}, "k=1"),
        ({"k": None}, "k=__HIVE_DEFAULT_PARTITION__"),
        ({"k": ""}, "k=__HIVE_DEFAULT_PARTITION__"),
        ({"k": "a/b=c %"}, "k=a%2Fb%3Dc %25"),
        ({"k": True}, "k=true"),
        ({"k": "Wörgl"}, "k=Wörgl"),
    ],
    ids=["number", "none", "empty", "escaped", "bool", "umlaut"],
)
def test_a_partition_is_called_as_in_hive(value: Any, folder: str) -> None:
    assert HivePartitions("k").deal(Batch([value | {"x": 2}]), 0, None) == {folder: [{"x": 2}]}


@pytest.mark.parametrize("value", [{"x": 1}, "text", None], ids=["field missing", "text", "none"])
def test_a_record_without_the_field_of_its_partition_is_refused(value: Any) -> None:
    with pytest.raises(RecordError, match=r"has no partition field \(.*\); expected a dictionary with k, l"):
        HivePartitions("k", "l").deal(Batch([value]), 0, None)


def test_a_function_that_answers_no_text_is_refused() -> None:
    with pytest.raises(RecordError, match="bucket of record 1 is 2; expected a string, the path of a folder"):
        FunctionBuckets(lambda value: value + 1).deal(Batch([1]), 0, None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: TimeBuckets("yy-MM"),
            "time pattern 'yy-MM' has the unknown part 'yy'; expected yyyy, MM, dd, HH, mm, ss",
        ),
        (lambda: TimeBuckets(zone="Mars/Base"), "time zone 'Mars/Base' is unknown; expected a name such as"),
        (
            lambda: TimeBuckets(by=cast("Any", "ingestion")),
            "time buckets: by is 'ingestion'; expected 'processing' or 'event'",
        ),
        (
            lambda: HivePartitions(),
            r"partition fields are \(\); expected different names, at least one",
        ),
        (lambda: HivePartitions("a", "a"), r"partition fields are \('a', 'a'\)"),
    ],
    ids=["pattern", "zone", "by", "no field", "field twice"],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
