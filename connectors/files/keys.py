"""Options of a file sink under the keys of Flink's filesystem table connector.

Example:
    >>> from tidegate.connectors.files.serde import JsonLines
    >>> keys = {"sink.partition-commit.policy.kind": "success-file", "sink.partition-commit.delay": "1 h"}
    >>> table_sink("/data/orders", JsonLines(), keys, partitioned_by=["dt", "hr"]).options.partition_commit.delay_ms
    3600000
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tidegate.connectors.base import BulkFormat, FileEncoder, RollingPolicy
from tidegate.connectors.files.buckets import HivePartitions
from tidegate.connectors.files.options import FileSinkOptions
from tidegate.connectors.files.partitions import PartitionCommit, PartitionCommitPolicy, SuccessFile
from tidegate.connectors.files.sink import FileSink
from tidegate.errors import ConfigError
from tidegate.options import Layer, load, option

__all__ = ["table_sink"]

_POLICY_CLASS = "sink.partition-commit.policy.class"
_EXTRACTOR_CLASS = "partition.time-extractor.class"


@dataclass(frozen=True)
class _Keys:
    file_bytes: int = option(
        "sink.rolling-policy.file-size", 128 * 1024 * 1024, "part size in bytes at which a file is rolled"
    )
    rollover_ms: int = option(
        "sink.rolling-policy.rollover-interval", 1_800_000, "maximum age of a file before it is rolled"
    )
    inactivity_ms: int = option(
        "sink.rolling-policy.inactivity-interval",
        1_800_000,
        "maximum idle time of a file before it is rolled",
    )
    check_ms: int = option("sink.rolling-policy.check-interval", 60_000, "not used: each batch is a check")
    trigger: Literal["process-time", "partition-time"] = option(
        "sink.partition-commit.trigger", "process-time", "when a partition counts as complete"
    )
    delay_ms: int = option("sink.partition-commit.delay", 0, "delay after that time")
    zone: str = option(
        "sink.partition-commit.watermark-time-zone", "UTC", "time zone of the partition fields"
    )
    policies: tuple[Literal["success-file", "custom", "metastore"], ...] = option(
        "sink.partition-commit.policy.kind",
        (),
        "actions at the commit of a partition, in order; no partition is committed if empty",
    )
    policy_class: str | None = option(_POLICY_CLASS, None, "module:name of the class of a custom policy")
    success_file: str = option(
        "sink.partition-commit.success-file.name",
        "_SUCCESS",
        "name of the file that marks a committed partition",
    )
    extractor: Literal["default", "custom"] = option(
        "partition.time-extractor.kind", "default", "kind of time extractor"
    )
    extractor_class: str | None = option(
        _EXTRACTOR_CLASS, None, "module:name of a function of the partition fields"
    )
    pattern: str | None = option(
        "partition.time-extractor.timestamp-pattern", None, "timestamp pattern of the partition fields"
    )


def table_sink(
    directory: str,
    encoder: FileEncoder | BulkFormat,
    keys: Mapping[str, Any],
    partitioned_by: Sequence[str] = (),
) -> FileSink:
    """A sink with Flink's defaults for tables.

    Args:
        directory: Where files are.
        encoder: What they hold.
        keys: Those that begin with `sink.rolling-policy.`, `sink.partition-commit.` and `partition.time-extractor.`.
            A class is said as `module:name`: of a policy it is made without arguments, of an extractor it is what
            `PartitionCommit` takes.
        partitioned_by: The fields that make folders.

    Raises:
        ConfigError: a key is unknown, wrong, or lacks another one.
    """
    said = load(_Keys, Layer("the options of a table of files", keys))
    rolling = RollingPolicy(
        said.file_bytes, said.rollover_ms, said.inactivity_ms, on_checkpoint=isinstance(encoder, BulkFormat)
    )
    buckets = HivePartitions(*partitioned_by) if partitioned_by else None
    return FileSink(
        directory, encoder, FileSinkOptions(rolling=rolling, buckets=buckets, partition_commit=_commit(said))
    )


def _commit(said: _Keys) -> PartitionCommit | None:
    if not said.policies:
        return None
    return PartitionCommit(
        said.trigger,
        said.delay_ms,
        tuple(_policy(kind, said) for kind in said.policies),
        said.pattern,
        None if said.extractor == "default" else _named(said.extractor_class, _EXTRACTOR_CLASS),
        said.zone,
    )


def _policy(kind: str, said: _Keys) -> PartitionCommitPolicy:
    if kind == "metastore":
        raise ConfigError(
            "partition commit policy 'metastore' needs a Hive catalog; got a directory; expected 'success-file' "
            "or 'custom'"
        )
    if kind == "success-file":
        return SuccessFile(said.success_file)
    policy: PartitionCommitPolicy = _named(said.policy_class, _POLICY_CLASS)()
    return policy


def _named(name: str | None, key: str) -> Any:
    try:
        return pkgutil.resolve_name(name or "")
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"option {key!r} is {name!r}, which cannot be loaded ({error}); expected module:name of an installed "
            "object"
        ) from error
