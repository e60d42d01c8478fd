"""What the engine's benchmarks run: functions that both sides call, a sink that drops records, and the inline job.

They are imported by name, so a job and the loop it is compared with call the very same functions.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.connectors.spi import Delivery, Sink
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.ids import CheckpointId
from tidegate.twophase.spi import SinkWriter, WriterContext

__all__ = ["DiscardingSink", "run_inline"]


@dataclass(frozen=True)
class DiscardingSink(Sink):
    """Takes records and forgets them."""

    delivery: Delivery = "at-least-once"

    def open_writer(self, context: WriterContext) -> Forget:
        return Forget()


class Forget(SinkWriter):
    def write(self, batch: Batch) -> None:
        pass

    def prepare(self, checkpoint: CheckpointId) -> None:
        pass


def run_inline(
    program: Callable[[StreamExecutionEnvironment], DataStream],
    backend: str = "heap",
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Run a program with one subtask per step in this process, checkpoints on, from its start to its end."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as root:
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": "inline",
                "parallelism.default": 1,
                "pipeline.progress": "off",
                "pipeline.id": "benchmark",
                "execution.checkpointing.interval": 500,
                "state.checkpoints.dir": root,
                "state.backend.type": backend,
                **(settings or {}),
            }
        )
        program(env).sink_to(DiscardingSink())
        env.execute("benchmark")
