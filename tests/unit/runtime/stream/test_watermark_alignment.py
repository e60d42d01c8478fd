"""Sources with several splits, and sources that wait for each other, in programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
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


@dataclass(frozen=True)
class Race:
    """Two sources of one group. The slow one leaves a byte for each record it reads; the fast one looks how many."""

    track: Path
    every_ms: int
    """How much event time lies between two records of the slow source."""
    length: int

    def slow(self, n: int) -> tuple[str, int, int]:
        with self.track.open("ab") as track:
            track.write(b".")
        return "slow", n * self.every_ms, 0

    def fast(self, n: int) -> tuple[str, int, int]:
        """A record with how far it is ahead, at the moment it is read; what has ended holds nobody back."""
        read = self.track.stat().st_size
        return "fast", n, n - (read - 1) * self.every_ms if read < self.length else 0


@pytest.mark.spec("003/SRC-11")
def test_each_split_has_a_watermark_and_the_slowest_counts(anywhere: StreamExecutionEnvironment) -> None:
    # Read in turn, the splits are thousands apart in time: with one watermark for all, half of the records is late.
    source = GeneratorSource(lambda n: ("n", n), count=12_000, splits=6)

    late = list(anywhere.from_source(source, times()).process(Late()).execute_and_collect())

    assert (len(late), sum(late)) == (12_000, 0)


@pytest.mark.spec("003/SRC-09")
def test_a_fast_source_waits_for_a_slow_one_of_its_group(
    anywhere: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    race = Race(tmp_path / "track", every_ms=40, length=500)
    race.track.touch()
    fast = GeneratorSource(race.fast, count=20_000)
    slow = GeneratorSource(race.slow, count=race.length, rate_per_second=400)

    streams = [anywhere.from_source(each, aligned(1_000)).set_parallelism(1) for each in (fast, slow)]
    read = list(streams[0].union(streams[1]).execute_and_collect())

    assert len(read) == 20_500
    # A batch is read whole, so its last record may be that much further than the limit.
    assert max(ahead for _, _, ahead in read) <= 1_000 + BATCH


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

    with pytest.raises(ConfigError, match="watermark alignment is possible only at a source"):
        stream.assign_timestamps_and_watermarks(aligned(10))


@pytest.mark.parametrize(("drift", "update"), [(-1, 10), (1, 0)], ids=["drift", "interval"])
def test_alignment_that_makes_no_sense_is_refused(drift: int, update: int) -> None:
    with pytest.raises(ConfigError, match="expected a drift of 0 or more and an interval of more than 0"):
        times().with_watermark_alignment("all", Duration.of_millis(drift), Duration.of_millis(update))
