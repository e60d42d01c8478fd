"""Resolution of a directory or URL to its output location."""

from __future__ import annotations

from pathlib import Path

from tidegate.connectors.base.local_files import LocalCommitterStore, LocalWriterStore
from tidegate.connectors.base.output_place import CommitterStore, WriterStore
from tidegate.ids import OperatorUid, PipelineId
from tidegate.twophase.naming import owner_name

__all__ = ["committer_store", "is_remote", "writer_store"]


def is_remote(directory: str | Path) -> bool:
    """Whether it is a bucket.

    Example:
        >>> is_remote("s3://bucket/out"), is_remote("/data/out")
        (True, False)
    """
    return str(directory).startswith("s3://")


def writer_store(directory: str | Path, pipeline: PipelineId, uid: OperatorUid) -> WriterStore:
    """The store of an operator's writers."""
    owner = owner_name(pipeline, uid)
    if is_remote(directory):
        from tidegate.connectors.base.bucket_files import BucketWriterStore

        return BucketWriterStore(str(directory), owner)
    return LocalWriterStore(Path(directory), owner)


def committer_store(directory: str | Path, pipeline: PipelineId, uid: OperatorUid) -> CommitterStore:
    """The store of an operator's committers."""
    owner = owner_name(pipeline, uid)
    if is_remote(directory):
        from tidegate.connectors.base.bucket_files import BucketCommitterStore

        return BucketCommitterStore(str(directory), owner)
    return LocalCommitterStore(Path(directory), owner)
