"""What can be set on a file sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from tidegate.connectors.base import Compaction, Compression, RollingPolicy
from tidegate.connectors.files.buckets import BucketAssigner, HivePartitions
from tidegate.connectors.files.partitions import PartitionCommit
from tidegate.connectors.spi import OnBranch
from tidegate.errors import ConfigError

__all__ = ["FileSinkOptions"]


@dataclass(frozen=True)
class FileSinkOptions:
    """Names of the files, when they end, and what happens when an older checkpoint is restored.

    Args:
        prefix: What file names begin with; no leading dot, so that listings show the files.
        suffix: What they end with; None takes the encoder's, such as `.jsonl`, and that of the compression.
        on_branch: `refuse` to go back behind committed files, or `append` the replayed records to them.
        rolling: When files end.
        buckets: Which folder a record goes to; None has no folders.
        compression: `gzip`, `bzip2` or `xz` for files of lines; the others compress by themselves.
        compaction: When small files are merged, None never.
        partition_commit: When partitions by `HivePartitions` are complete, and how that is told; None never.

    Raises:
        ConfigError: a value is not one of these.
    """

    prefix: str = "part"
    suffix: str | None = None
    on_branch: OnBranch = "refuse"
    rolling: RollingPolicy = RollingPolicy()
    buckets: BucketAssigner | None = None
    compression: Compression | None = None
    compaction: Compaction | None = None
    partition_commit: PartitionCommit | None = None

    def __post_init__(self) -> None:
        if self.on_branch not in get_args(OnBranch):
            raise ConfigError(f"file sink on_branch is {self.on_branch!r}; expected 'refuse' or 'append'")
        if self.compression is not None and self.compression not in get_args(Compression):
            raise ConfigError(
                f"file sink compression is {self.compression!r}; expected one of {', '.join(get_args(Compression))}"
            )
        if self.partition_commit is not None and not isinstance(self.buckets, HivePartitions):
            raise ConfigError(
                f"file sink partition_commit needs partitions; got buckets {self.buckets!r}; expected HivePartitions(...)"
            )
