"""Options of the executor on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidegate.options import check_ranges, option

__all__ = ["SparkOptions", "SparkTrigger"]

SparkTrigger = Literal["as-fast-as-possible", "interval", "available-now", "once"]


@dataclass(frozen=True)
class SparkOptions:
    """Options of epochs: how much one reads, and when it begins."""

    epoch_records: int = option(
        "execution.spark.epoch-records", 100_000, "records read per source subtask and epoch on Spark"
    )
    epoch_bytes: int = option(
        "execution.spark.epoch-bytes",
        256 * 1024 * 1024,
        "bytes sent on per source subtask and epoch on Spark, after which it reads no more",
    )
    epoch_reading_ms: int = option(
        "execution.spark.epoch-reading-time", 30_000, "how long a source subtask reads in an epoch on Spark"
    )
    spark_trigger: SparkTrigger = option(
        "execution.spark.trigger",
        "as-fast-as-possible",
        "when an epoch begins: as-fast-as-possible while there is input; interval: once per checkpoint interval; "
        "available-now: until the input is read that is there, then stop; once: one epoch, then stop",
    )

    def __post_init__(self) -> None:
        check_ranges(self)
