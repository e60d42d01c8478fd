"""What a pipeline keeps in its state, asked by SQL: the newest checkpoint as a table of Spark. Needs Java 17."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.spark import register

PAYMENTS = 1_000


class Paid(KeyedProcessFunction):
    """How much an account has paid."""

    def open(self, runtime_context: Any) -> None:
        self.cents = runtime_context.get_state(ValueStateDescriptor("cents", default=0))

    def process_element(self, value: int, ctx: Any) -> None:
        self.cents.update(self.cents.value() + value)


def pay(root: Path) -> str:
    """Run a pipeline; returns its newest checkpoint."""
    settings = {"execution.target": "inline", "parallelism.default": 2, "state.checkpoints.dir": str(root)}
    env = StreamExecutionEnvironment.get_execution_environment({**settings, "pipeline.progress": "off"})
    payments = env.from_collection(range(PAYMENTS)).key_by(lambda number: f"account {number % 50}")
    payments.process(Paid()).uid("paid").filter(lambda _: False).print()
    env.execute("paid")
    *_, newest = sorted(root.glob("*/chk-*"), key=lambda path: int(path.name.removeprefix("chk-")))
    return str(newest)


def main(spark: SparkSession, directory: Path) -> list[str]:
    """Who has paid most."""
    register(spark)
    state = spark.read.format("tidegate-state").option("uid", "paid").option("state", "cents")
    state.load(pay(directory)).createOrReplaceTempView("paid")
    found = spark.sql("SELECT key, value FROM paid ORDER BY value DESC LIMIT 2").collect()
    total = spark.sql("SELECT count(*) AS accounts, sum(value) AS cents FROM paid").collect()[0]
    return [f"{row.key}: {row.value}" for row in found] + [f"{total.accounts} accounts, {total.cents} cents"]


if __name__ == "__main__":
    import tempfile

    session = SparkSession.builder.master("local[2]").getOrCreate()
    with tempfile.TemporaryDirectory() as place:
        print(*main(session, Path(place)), sep="\n")
    session.stop()
