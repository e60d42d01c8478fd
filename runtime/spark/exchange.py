"""What stands between two levels, and where Spark would rather run the one behind it.

The state of a subtask lies on the machine where it has last run. Spark runs a task rather where it holds data for it, so on a
cluster each partition is joined with one of a data set without any records, which executors keep. That is a wish: a task may
run anywhere, and if an executor is gone, its partitions of that data set are made again elsewhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark import RDD, SparkContext, StorageLevel
from pyspark.serializers import BatchedSerializer, CPickleSerializer, pack_long

from tidegate.runtime.spark.master import is_local

__all__ = ["Exchange"]


class Exchange:
    """Deals what tasks have sent to the partitions it is for.

    PySpark's own `partitionBy` does the same, but what it returns cannot be joined without moving it again.

    Args:
        context: Spark's. Where its executors are not its own process, tasks of a partition shall stay where the first one was.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._anchors: dict[int, Any] = {}

    def deal(self, sent: RDD[tuple[int, Any]], partitions: int) -> RDD[Any]:
        """What is for each of so many partitions."""
        pairs = self._dealt(sent, partitions)
        if not is_local(self._context.master):
            if partitions not in self._anchors:
                self._anchors[partitions] = self._anchor(partitions)
            pairs = pairs.union(self._anchors[partitions])
        values = self._java.PythonRDD.valueOfPair(pairs)
        return RDD(values, self._context, BatchedSerializer(CPickleSerializer()))

    def close(self) -> None:
        """Let executors forget where tasks ran."""
        for anchor in self._anchors.values():
            with contextlib.suppress(Exception):  # a Java process that is gone has forgotten
                anchor.unpersist()

    def _anchor(self, partitions: int) -> Any:
        anchor = self._dealt(self._context.parallelize((), partitions), partitions)
        anchor.persist(self._context._getJavaStorageLevel(StorageLevel.MEMORY_ONLY))
        anchor.count()
        return anchor

    def _dealt(self, sent: RDD[tuple[int, Any]], partitions: int) -> Any:
        packed = sent.mapPartitions(_packed, preservesPartitioning=True)
        packed._bypass_serializer = True
        # Those with equal numbers are equal to Spark, so what they deal can be joined where it is.
        partitioner = self._java.PythonPartitioner(partitions, id(_packed))
        return self._java.PairwiseRDD(packed._jrdd.rdd()).asJavaPairRDD().partitionBy(partitioner)

    @property
    def _java(self) -> Any:
        return self._context._jvm


def _packed(sent: Iterable[tuple[int, Any]]) -> Iterator[bytes]:
    """A number and a list, as Spark's Java side takes pairs."""
    serializer = CPickleSerializer()
    for target, value in sent:
        yield pack_long(target)
        yield serializer.dumps([value])
