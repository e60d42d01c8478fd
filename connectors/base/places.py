"""Resolution of a directory or URL to its output location."""

from __future__ import annotations

from pathlib import Path

from tidegate.connectors.base.local_files import LocalOutlet, LocalWorkplace
from tidegate.connectors.base.output_place import Outlet, Workplace
from tidegate.ids import OperatorUid, PipelineId
from tidegate.twophase.naming import owner_name

__all__ = ["is_remote", "outlet", "workplace"]


def is_remote(directory: str | Path) -> bool:
    """Whether it is a bucket.

    Example:
        >>> is_remote("s3://bucket/out"), is_remote("/data/out")
        (True, False)
    """
    return str(directory).startswith("s3://")


def workplace(directory: str | Path, pipeline: PipelineId, uid: OperatorUid) -> Workplace:
    """Where an operator's writers work."""
    owner = owner_name(pipeline, uid)
    if is_remote(directory):
        from tidegate.connectors.base.bucket_files import BucketWorkplace

        return BucketWorkplace(str(directory), owner)
    return LocalWorkplace(Path(directory), owner)


def outlet(directory: str | Path, pipeline: PipelineId, uid: OperatorUid) -> Outlet:
    """Where an operator's committers show what was written."""
    owner = owner_name(pipeline, uid)
    if is_remote(directory):
        from tidegate.connectors.base.bucket_files import BucketOutlet

        return BucketOutlet(str(directory), owner)
    return LocalOutlet(Path(directory), owner)
