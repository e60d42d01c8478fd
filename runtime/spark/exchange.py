"""The shuffle between two levels, and the preferred locations of the tasks after it.

The state of a subtask is on the machine where it ran last. Spark prefers to run a task where it holds data for it, so on a
cluster each partition is joined with one of a cached, empty data set. This is only a preference: a task may run
anywhere, and if an executor is lost, its partitions of that data set are created again elsewhere.
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
    """Partitions the records that tasks have sent by their receiver.

    PySpark's own `partitionBy` does the same, but what it returns cannot be joined without moving it again.

    Args:
        context: The Spark context. If executors run in other processes, tasks of a partition prefer the executor of the first.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._anchors: dict[int, Any] = {}

    def deal(self, sent: RDD[tuple[int, Any]], partitions: int) -> RDD[Any]:
        """The records for each of `partitions` partitions."""
        pairs = self._dealt(sent, partitions)
        if not is_local(self._context.master):
            if partitions not in self._anchors:
                self._anchors[partitions] = self._anchor(partitions)
            pairs = pairs.union(self._anchors[partitions])
        values = self._java.PythonRDD.valueOfPair(pairs)
        return RDD(values, self._context, BatchedSerializer(CPickleSerializer()))

    def close(self) -> None:
        """Remove the cached data set."""
        for anchor in self._anchors.values():
            with contextlib.suppress(Exception):  # a Java process that is gone holds no cache
                anchor.unpersist()

    def _anchor(self, partitions: int) -> Any:
        anchor = self._dealt(self._context.parallelize((), partitions), partitions)
        anchor.persist(self._context._getJavaStorageLevel(StorageLevel.MEMORY_ONLY))
        anchor.count()
        return anchor

    def _dealt(self, sent: RDD[tuple[int, Any]], partitions: int) -> Any:
        packed = sent.mapPartitions(_packed, preservesPartitioning=True)
        packed._bypass_serializer = True
        # Spark treats those with equal numbers as equal, so their partitions can be joined without another shuffle.
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
