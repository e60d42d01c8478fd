"""Whether memory stays flat when a sink is ten times slower than its source: 5 million records over two processes.

The resident memory of all processes is sampled four times a second. The median of the last quarter of the run must be
within a tenth of the median of the second quarter; the first quarter, in which processes start, does not count.
"""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path

from benchmarks.harness import Bar, Measured, Report, Round, Verdict, main
from benchmarks.machine import CoreMeter, machine_facts
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment

COUNT = 5_000_000
TURNS = 250
"""Of an empty loop, about 4 microseconds: ten times what the source needs for a record."""
NAMES = ("second quarter, MB", "last quarter, MB")


class Rss:
    """Samples the resident memory of this process and its children while it is open, in MB."""

    def __init__(self) -> None:
        self.samples: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Rss:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.25):
            self.samples.append(sum(map(resident_mb, ["self", *_children()])))


def build(rounds: int) -> Report:
    meter = CoreMeter()
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "embedded", "pipeline.progress": "off", "parallelism.default": 1}
    )
    source = env.from_source(GeneratorSource(int, COUNT)).slot_sharing_group("reading")
    slow = source.map(take_time).slot_sharing_group("writing")
    started = time.perf_counter()
    with Rss() as rss:
        list(slow.filter(lambda number: number == COUNT - 1).execute_and_collect())
    quarter = len(rss.samples) // 4
    early, late = rss.samples[quarter : 2 * quarter], rss.samples[3 * quarter :]
    arguments = {"records": COUNT, "seconds": round(time.perf_counter() - started, 1)}
    # The harness knows milliseconds; a thousandth of a megabyte a millisecond keeps the table readable.
    measured = [
        Measured(name, arguments, 1, 1, [Round(mb / 1000, 0.0) for mb in part])
        for name, part in zip(NAMES, (early, late), strict=True)
    ]
    ratio = statistics.median(late) / statistics.median(early)
    middle = statistics.median(early)
    verdict = Verdict(
        Bar(NAMES[1], NAMES[0], 1.1), ratio, min(late) / middle, max(late) / middle, 0.9 <= ratio <= 1.1
    )
    return Report("memory", "wall_s", machine_facts(), meter.free_cores(), measured, [verdict])


def take_time(number: int) -> int:
    for _ in range(TURNS):
        pass
    return number


def _children() -> list[str]:
    return Path("/proc/self/task", str(threading.main_thread().native_id), "children").read_text().split()


def resident_mb(process: str) -> float:
    try:
        pages = int(Path("/proc", process, "statm").read_text().split()[1])
    except OSError:  # it has just ended
        return 0.0
    return pages * 4096 / 1e6


if __name__ == "__main__":
    main(build)
