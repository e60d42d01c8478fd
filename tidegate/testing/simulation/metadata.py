"""Metadata of a simulated checkpoint."""

from __future__ import annotations

from tidegate.ids import Branch, LineageId, OperatorUid, PipelineId, RunId
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState
from tidegate.runtime.checkpoint.protocol import WriteMetadata
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.testing.simulation.tasks import COUNT, GROUPS, SINKS, SOURCE, SOURCES

__all__ = ["assemble"]


def assemble(action: WriteMetadata) -> Manifest:
    """What the subtasks have reported, put together."""

    def reports(uid: OperatorUid) -> list[OperatorReport]:
        return sorted((r for r in action.reports if r.uid == uid), key=lambda report: report.subtask)

    splits = tuple(split for report in reports(SOURCE) for split in report.splits)
    keyed = tuple(report.keyed for report in reports(COUNT) if report.keyed is not None)
    in_flight = tuple(report.in_flight for report in reports(COUNT) if report.in_flight is not None)
    return Manifest(
        pipeline=PipelineId("simulated"),
        lineage=LineageId("l"),
        branch=Branch(0),
        run=RunId("r"),
        checkpoint=action.checkpoint,
        parent=None,
        created_ms=0,
        operators=(
            OperatorState(SOURCE, "source", SOURCES, GROUPS, splits=splits),
            OperatorState(COUNT, "count", SINKS, GROUPS, keyed=keyed, in_flight=in_flight),
        ),
        unsettled=action.unsettled,
    )
