"""Sources with several splits, and sources that wait for each other, in programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import ProcessFunction, StreamExecutionEnvironment
from tidegate.errors import ConfigError

BATCH = 256
"""Records that a paused source may have read too far."""


def times() -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])


def aligned(drift_ms: int) -> WatermarkStrategy:
    return times().with_watermark_alignment("all", Duration.of_millis(drift_ms), Duration.of_millis(10))


class Late(ProcessFunction):
    """Tells which records came behind the watermark."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[bool]:
        yield ctx.timestamp() <= ctx.timer_service().current_watermark()


class Gap(ProcessFunction):
    """Tells how far the newest record is ahead of the slowest of the sources that have not ended."""

    def __init__(self, last: dict[str, int]) -> None:
        self.last = last

    def open(self, runtime_context: Any) -> None:
        self.newest = dict.fromkeys(self.last, -1)

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[int]:
        name, time = value
        self.newest[name] = time
        going = [at for each, at in self.newest.items() if at < self.last[each]]
        yield time - min(going, default=time)


def gaps(stream: Any, last: dict[str, int]) -> list[int]:
    return list(stream.process(Gap(last)).set_parallelism(1).execute_and_collect())


def test_each_split_has_a_watermark_and_the_slowest_counts(anywhere: StreamExecutionEnvironment) -> None:
    # Read in turn, the splits are thousands apart in time: with one watermark for all, half of the records is late.
    source = GeneratorSource(lambda n: ("n", n), count=12_000, splits=6)

    late = list(anywhere.from_source(source, times()).process(Late()).execute_and_collect())

    assert (len(late), sum(late)) == (12_000, 0)


def test_a_fast_source_waits_for_a_slow_one_of_its_group(anywhere: StreamExecutionEnvironment) -> None:
    fast = GeneratorSource(lambda n: ("fast", n), count=20_000)
    slow = GeneratorSource(lambda n: ("slow", n * 40), count=500, rate_per_second=400)

    streams = [anywhere.from_source(each, aligned(1_000)).set_parallelism(1) for each in (fast, slow)]
    found = gaps(streams[0].union(streams[1]), {"fast": 19_999, "slow": 19_960})

    assert len(found) == 20_500
    # On top comes what the slow source has under way to the function: at most half a second of it, 200 records.
    # Without alignment the fast source is through at once and nearly 20,000 ahead.
    assert max(found) <= 1_000 + BATCH + 200 * 40


def test_splits_of_one_source_wait_for_each_other_and_all_come_to_their_end(
    anywhere: StreamExecutionEnvironment,
) -> None:
    size, splits = 3_000, 6
    source = GeneratorSource(lambda n: (str(n // 3_000), n), count=size * splits, splits=splits)

    stream = anywhere.from_source(source, aligned(100)).map(lambda pair: pair)
    read = sorted(stream.execute_and_collect(), key=lambda pair: pair[1])

    assert read == [(str(n // size), n) for n in range(size * splits)]


@pytest.mark.parametrize("patience_ms", [50], ids=["idle"])
def test_a_source_that_is_idle_or_ended_holds_nobody_back(
    anywhere: StreamExecutionEnvironment, patience_ms: int
) -> None:
    patient = aligned(10).with_idleness(Duration.of_millis(patience_ms))
    fast = anywhere.from_source(GeneratorSource(lambda n: ("fast", n), count=5_000), patient).set_parallelism(
        1
    )
    # Its second record comes long after its first one was enough to hold the others back.
    pace = GeneratorSource(lambda n: ("slow", n), count=2, rate_per_second=2)
    slow = anywhere.from_source(pace, patient).set_parallelism(1)
    ended = anywhere.from_source(CollectionSource([("short", 1)]), patient)

    assert len(list(fast.union(slow, ended).execute_and_collect())) == 5_003


def test_alignment_is_for_sources() -> None:
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([("a", 1)])

    with pytest.raises(ConfigError, match="watermark alignment pauses readers, so it belongs to a source"):
        stream.assign_timestamps_and_watermarks(aligned(10))


@pytest.mark.parametrize(("drift", "update"), [(-1, 10), (1, 0)], ids=["drift", "interval"])
def test_alignment_that_makes_no_sense_is_refused(drift: int, update: int) -> None:
    with pytest.raises(ConfigError, match="expected a drift of 0 or more and an interval of more than none"):
        times().with_watermark_alignment("all", Duration.of_millis(drift), Duration.of_millis(update))
