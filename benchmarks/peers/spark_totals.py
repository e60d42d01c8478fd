"""Serves running totals on Spark: by tidegate, or by transformWithState with rows or with pandas, in a session that stays.

All call `add` once per row, keep its answer in RocksDB and hand a row on; the input is computed, the output dropped.
Asked for `rows` of a batch, and `warm` and `count` of batches, they answer with the seconds of each.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession, functions
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

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

USERS = 10_000
STRIDE = 7_919
PARTITIONS = 2
LOOK_S = 0.05
KEPT = StructType([StructField("count", LongType()), StructField("total", LongType())])
OUTPUT = "user LONG, count LONG, total LONG"
OF_SPARK = {
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


def add(kept: tuple[int, int], amount: int) -> tuple[int, int]:
    """What every system calls for each row."""
    count, total = kept
    return count + 1, total + amount


class Totals(KeyedProcessFunction):
    """By tidegate."""

    def open(self, runtime_context: RuntimeContext) -> None:
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", pair, (0, 0)))

    def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[tuple[int, int, int]]:
        user, amount = value
        kept = add(self.kept.value(), amount)
        self.kept.update(kept)
        yield user, *kept


class RowTotals(StatefulProcessor):  # type: ignore[misc]  # PySpark is not followed
    """By transformWithState."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.kept = handle.getValueState("kept", KEPT)

    def handleInputRows(  # noqa: N802  # its name in PySpark
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803  # likewise
    ) -> Iterator[Row]:
        kept = tuple(self.kept.get()) if self.kept.exists() else (0, 0)
        for row in rows:
            kept = add(kept, row.amount)
            yield Row(user=row.user, count=kept[0], total=kept[1])
        self.kept.update(kept)


class PandasTotals(StatefulProcessor):  # type: ignore[misc]  # likewise
    """By transformWithStateInPandas."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.kept = handle.getValueState("kept", KEPT)

    def handleInputRows(  # noqa: N802  # its name in PySpark
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803  # likewise
    ) -> Iterator[Any]:
        import pandas as pd

        kept = tuple(self.kept.get()) if self.kept.exists() else (0, 0)
        found = []
        for frame in rows:
            for user, amount in zip(frame["user"].tolist(), frame["amount"].tolist(), strict=True):
                kept = add(kept, amount)
                found.append((user, *kept))
        self.kept.update(kept)
        yield pd.DataFrame(found, columns=["user", "count", "total"])


def ours(rows: int, warm: int, count: int) -> list[float]:
    """Seconds of epochs."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as root:
        events = Path(root, "events")
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": MASTER,
                "execution.spark.epoch-records": rows // PARTITIONS,
                "parallelism.default": PARTITIONS,
                "pipeline.id": "totals",
                "pipeline.progress": "off",
                "pipeline.event-log": str(events),
                "state.checkpoints.dir": str(Path(root, "state")),
                "state.backend.type": "rocksdb",
            }
        )
        payments = env.from_source(
            GeneratorSource(
                lambda number: (number * STRIDE % USERS, number % 1_000 + 1),
                (warm + count + 1) * rows,
                PARTITIONS,
            )
        )
        payments.key_by(lambda payment: payment[0]).process(Totals()).sink_to(DiscardingSink())
        env.execute("totals")
        return gaps_s(begun(events), warm, count)


def peer(spark: SparkSession, how: str, rows: int, warm: int, count: int) -> list[float]:
    """Seconds of micro-batches, from one beginning to the next."""
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    payments = (
        numbers.option("numPartitions", PARTITIONS)
        .load()
        .select(
            (functions.col("value") * STRIDE % USERS).alias("user"),
            (functions.col("value") % 1_000 + 1).alias("amount"),
        )
    )
    grouped = payments.groupBy("user")
    totals: DataFrame
    if how == "row":
        totals = grouped.transformWithState(RowTotals(), OUTPUT, "Append", "None")
    else:
        totals = grouped.transformWithStateInPandas(PandasTotals(), OUTPUT, "Append", "None")
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as root:
        query = (
            totals.writeStream.format("noop").option("checkpointLocation", root).outputMode("append").start()
        )
        try:
            while (last := query.lastProgress) is None or last["batchId"] < warm + count:
                if not query.isActive:
                    raise RuntimeError(str(query.exception()))
                time.sleep(LOOK_S)
            progress = {each["batchId"]: each for each in query.recentProgress if each["numInputRows"]}
        finally:
            query.stop()
    chosen = [progress[number] for number in range(warm, warm + count)]
    if any(each["numInputRows"] != rows for each in chosen):
        raise RuntimeError(f"batches of {[each['numInputRows'] for each in chosen]} rows; expected {rows}")
    return [each["durationMs"]["triggerExecution"] / 1_000 for each in chosen]


def main(how: str) -> None:
    """Start Spark once and answer."""
    spark = session("ours" if how == "ours" else "stock", OF_SPARK)

    def answer(asked: dict[str, Any]) -> list[float]:
        sizes = (asked["rows"], asked["warm"], asked["count"])
        return ours(*sizes) if how == "ours" else peer(spark, asked["how"], *sizes)

    serve(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
