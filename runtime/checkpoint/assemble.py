"""Assembles the manifest of a checkpoint from the reports of all subtasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState, Unsettled
from tidegate.runtime.checkpoint.pipeline import Pipeline
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.operators.environment import OperatorReport

__all__ = ["assemble", "operator_state"]


def assemble(
    pipeline: Pipeline,
    graph: JobGraph,
    checkpoint: CheckpointId,
    reports: Iterable[OperatorReport],
    unsettled: tuple[Unsettled, ...],
    *,
    enumerators: Mapping[OperatorUid, bytes],
    created_ms: int,
) -> Manifest:
    """The manifest of a checkpoint all subtasks have acknowledged."""
    by_uid: dict[OperatorUid, list[OperatorReport]] = {uid: [] for uid in graph.nodes}
    for report in sorted(reports, key=lambda report: report.subtask):
        by_uid[report.uid].append(report)
    decided = pipeline.record.retained
    return Manifest(
        pipeline=pipeline.id,
        lineage=pipeline.record.lineage,
        branch=pipeline.record.branch,
        run=pipeline.run,
        checkpoint=checkpoint,
        parent=decided[-1].checkpoint if decided else None,
        created_ms=created_ms,
        operators=tuple(
            operator_state(node, by_uid[uid], enumerators.get(uid)) for uid, node in graph.nodes.items()
        ),
        unsettled=unsettled,
        batch=graph.batch,
    )


def operator_state(
    node: StreamNode, reports: list[OperatorReport], enumerator: bytes | None
) -> OperatorState:
    """What the subtasks of one operator reported, in their order."""
    return OperatorState(
        uid=node.uid,
        name=node.name,
        parallelism=node.parallelism,
        max_parallelism=node.max_parallelism,
        keyed=tuple(report.keyed for report in reports if report.keyed is not None),
        coordinator=enumerator,
        splits=tuple(split for report in reports for split in report.splits),
        writers=tuple(report.writer for report in reports if report.writer is not None),
        lists=tuple(report.lists for report in reports if report.lists),
        in_flight=tuple(report.in_flight for report in reports if report.in_flight is not None),
        times=tuple(report.time for report in reports if report.time is not None),
        shape=node.shape,
    )
