"""Visits to a shop: clicks of a visitor that are less than half an hour apart belong together.

Clicks come out of order by up to five minutes. One that comes when its visit has been told already goes to a side output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidegate import StreamExecutionEnvironment
from tidegate.common import Duration, WatermarkStrategy
from tidegate.common.watermark_strategy import WatermarkGenerator
from tidegate.datastream import OutputTag, ProcessWindowFunction
from tidegate.datastream.window import EventTimeSessionWindows

CLICKS = [
    ("ada", 12, "tea"),
    ("bob", 14, "jam"),
    ("ada", 9, "pot"),  # out of order, and in time
    ("bob", 90, "tea"),  # moves time on: the first visits are over
    ("ada", 5, "jam"),  # too late
    ("ada", 95, "pot"),
]
PAUSE = EventTimeSessionWindows.with_gap(Duration.of_minutes(30))
LATE = OutputTag("late clicks")
MINUTE_MS = 60_000


class FiveMinutesBehind(WatermarkGenerator):
    asked = "record"  # not after each batch, so that the same clicks are late every time
    newest = 0

    def on_event(self, value: Any, timestamp: int) -> None:
        self.newest = max(self.newest, timestamp)

    def watermark(self) -> int:
        return self.newest - 5 * MINUTE_MS


class Visit(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[tuple[str, int, str]]) -> Iterator[str]:
        things = ", ".join(thing for _, _, thing in sorted(elements))
        yield f"{key} came at minute {context.window().start // MINUTE_MS:2} and looked at {things}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    behind = WatermarkStrategy.for_generator(FiveMinutesBehind)
    times = behind.with_timestamp_assigner(lambda click, _: click[1] * MINUTE_MS)
    clicks = env.from_collection(CLICKS).assign_timestamps_and_watermarks(times)
    visits = clicks.key_by(lambda click: click[0]).window(PAUSE).side_output_late_data(LATE).process(Visit())
    late = visits.get_side_output(LATE).map(lambda click: f"{click[0]} looked at {click[2]}, told too late")
    for line in sorted(visits.union(late).execute_and_collect()):
        print(line)


if __name__ == "__main__":
    main()
