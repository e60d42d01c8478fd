"""An epoch of a program, as its tasks see it."""

from __future__ import annotations

from dataclasses import replace

from tidegate.backends.heap import HeapBackend
from tidegate.backends.spi import CheckpointStorage
from tidegate.backends.storage import MemoryStorage, decisions_of
from tidegate.clock import SYSTEM_CLOCK
from tidegate.ids import Branch, CheckpointId, FencingTerm, LineageId, PipelineId, RunId
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.checkpoint.record import read_record
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.options import JobOptions
from tidegate.runtime.shipping import pack_main_classes, pack_vertices
from tidegate.runtime.spark.messages import Order
from tidegate.runtime.spark.shape import shape_of


def epoch_order(
    graph: JobGraph,
    options: JobOptions | None = None,
    now_ms: int = 0,
    storage: CheckpointStorage | None = None,
) -> Order:
    """The first epoch of a run, with state in memory unless there is another storage."""
    storage = storage or MemoryStorage()
    if read_record(decisions_of(storage), PipelineId("pipeline"))[0] is None:
        Pipeline(storage, PipelineId("pipeline"), RunId("run"), SYSTEM_CLOCK).acquire(
            lambda: LineageId("lineage"), fresh=False, say=print
        )
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
        term=FencingTerm(1),
        run=RunId("run"),
        attempt="attempt",
        storage=storage,
        backend=HeapBackend(),
        # Nothing renews this lease, and with it would end this process.
        options=replace(options or JobOptions(), lease_ms=3_600_000),
        path=(),
        batch=graph.batch,
    )
