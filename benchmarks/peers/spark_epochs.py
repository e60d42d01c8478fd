"""Serves epochs of source -> key_by -> ValueState -> blackhole on Spark, in one session that stays.

`python -m benchmarks.peers.spark_epochs ours` has the settings of tidegate, `stock` those that Spark is delivered with. What
is asked for: `pipeline` (partitions, keys in state, keys touched), and either `load` (records of one epoch) or
`records`, `warm` and `count` of epochs, which are answered with their seconds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.jobs import DiscardingSink
from benchmarks.peers.spark_session import MASTER, begun, gaps_s, serve, session
from tidegate.common import Types
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)

LOOK_S = 0.05


class Count(KeyedProcessFunction):
    """How often a key was there."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), 0))

    def process_element(self, value: int, ctx: Any) -> None:
        self.count.update(self.count.value() + 1)


class Pipeline:
    """A pipeline with a history of its own; each run goes on where the last one ended.

    It fills `keys` first, each once, and then goes round in `touched` of them.
    """

    def __init__(self, root: Path, partitions: int, keys: int, touched: int) -> None:
        self._root = root
        self._partitions = partitions
        self._keys = keys
        self._touched = touched
        root.mkdir()

    def load(self, records: int) -> float:
        """One epoch; the seconds of its run."""
        began = time.perf_counter()
        self._environment(records, "once").execute("epochs")
        return time.perf_counter() - began

    def epochs(self, records: int, warm: int, count: int) -> list[float]:
        """Seconds from the beginning of an epoch to that of the next one, behind the first `warm`."""
        events = self._root / "events"
        events.unlink(missing_ok=True)
        client = self._environment(records, "as-fast-as-possible").execute_async("epochs")
        while len(begun(events)) < warm + count + 1:
            if client.get_job_execution_result().done():
                break
            time.sleep(LOOK_S)
        client.stop().result()
        return gaps_s(begun(events), warm, count)

    def _environment(self, records: int, trigger: str) -> StreamExecutionEnvironment:
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": MASTER,
                "execution.spark.epoch-records": records // self._partitions,
                "execution.spark.trigger": trigger,
                "parallelism.default": self._partitions,
                "pipeline.id": "epochs",
                "pipeline.progress": "off",
                "pipeline.event-log": str(self._root / "events"),
                "state.checkpoints.dir": str(self._root / "state"),
                "state.backend.type": "rocksdb",
            }
        )
        keys, touched = self._keys, self._touched
        numbers = env.from_source(
            GeneratorSource(
                lambda number: number if number < keys else number % touched, None, self._partitions
            )
        )
        numbers.key_by(lambda number: number).process(Count()).sink_to(DiscardingSink())
        return env


def main(settings: str) -> None:
    """Start Spark once and answer."""
    session(settings)
    pipelines: dict[tuple[int, ...], Pipeline] = {}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as root:

        def answer(asked: dict[str, Any]) -> Any:
            which = tuple(asked["pipeline"])
            if which not in pipelines:
                pipelines[which] = Pipeline(Path(root, "-".join(map(str, which))), *which)
            if "load" in asked:
                return pipelines[which].load(asked["load"])
            return pipelines[which].epochs(asked["records"], asked["warm"], asked["count"])

        serve(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
