"""An epoch of a program, as its tasks see it."""

from __future__ import annotations

from tidegate.backends.heap import HeapBackend
from tidegate.backends.storage import MemoryStorage
from tidegate.ids import Branch, CheckpointId, LineageId, PipelineId, RunId
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.options import JobOptions
from tidegate.runtime.shipping import pack_main_classes, pack_vertices
from tidegate.runtime.spark.messages import Order
from tidegate.runtime.spark.shape import shape_of


def epoch_order(graph: JobGraph, options: JobOptions | None = None, now_ms: int = 0) -> Order:
    """The first epoch of a run, with state in memory."""
    return Order(
        shape=shape_of(graph),
        vertices=pack_vertices(graph.vertices.values()),
        main_classes=pack_main_classes(),
        checkpoint=CheckpointId(1),
        confirmed=None,
        since=None,
        now_ms=now_ms,
        since_ms=0,
        pipeline=PipelineId("pipeline"),
        lineage=LineageId("lineage"),
        branch=Branch(0),
        run=RunId("run"),
        attempt="attempt",
        storage=MemoryStorage(),
        backend=HeapBackend(),
        options=options or JobOptions(),
        path=(),
    )
