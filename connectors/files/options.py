"""Options of the file sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

from tidegate.connectors.base import Compaction, Compression, RollingPolicy
from tidegate.connectors.base.dead_letters import OnError, check_on_error
from tidegate.connectors.files.buckets import BucketAssigner, HivePartitions
from tidegate.connectors.files.partitions import PartitionCommit
from tidegate.connectors.spi import OnBranch
from tidegate.errors import ConfigError
from tidegate.options import PartialOptions, option

__all__ = ["FileSinkOptions"]


_KEY: Final = "connector.files.sink."


@dataclass(frozen=True)
class FileSinkOptions(PartialOptions):
    """Names of the files, when they end, and what happens when an older checkpoint is restored.

    Args:
        prefix: What file names begin with; no leading dot, so that listings show the files.
        suffix: What they end with; None takes the encoder's, such as `.jsonl`, and that of the compression.
        on_branch: `refuse` a restore from before committed files, or `append` the replayed records to them.
        rolling: When files end.
        buckets: Which folder a record goes to; None has no folders.
        compression: `gzip`, `bzip2` or `xz` for files of lines; the others compress by themselves.
        compaction: When small files are merged, None never.
        partition_commit: When partitions by `HivePartitions` are complete, and how that is told; None never.
        on_error: `fail` at a record that cannot be written, `skip` and count it, or write it as a dead letter.
        dead_letters: The folder for those, such as `_dead`; it begins with `_`, so that readers of the directory pass it by.
        take_over: Replace the claim on the directory of a pipeline of the same name with its checkpoints elsewhere, and
            remove its unfinished work.

    Raises:
        ConfigError: a value is not one of these.
    """

    prefix: str = option(_KEY + "prefix", "part", "prefix of file names")
    suffix: str | None = option(
        _KEY + "suffix", None, "suffix of file names; default: that of the encoder and the compression"
    )
    on_branch: OnBranch = option(
        _KEY + "on-branch",
        "refuse",
        "when an older checkpoint is restored: refuse if files were committed after it, or append",
    )
    rolling: RollingPolicy = RollingPolicy()
    buckets: BucketAssigner | None = None
    compression: Compression | None = option(
        _KEY + "compression", None, "gzip, bzip2 or xz for files of lines; default: none"
    )
    compaction: Compaction | None = None
    partition_commit: PartitionCommit | None = None
    on_error: OnError = option(
        _KEY + "on-error",
        "fail",
        "what to do with a record that cannot be written: fail, skip or dead_letter",
    )
    dead_letters: str | None = option(_KEY + "dead-letters", None, "folder of dead letters, such as _dead")
    take_over: bool = option(
        _KEY + "take-over", False, "take over the directory from the pipeline that claimed it"
    )

    def __post_init__(self) -> None:
        check_on_error("file sink", self.on_error, self.dead_letters)
        folder = self.dead_letters
        if folder is not None and (not folder.startswith("_") or "/" in folder or "\0" in folder):
            raise ConfigError(
                f"file sink dead_letters is {folder!r}; expected the name of a folder that starts with '_', such "
                "as '_dead'"
            )
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
