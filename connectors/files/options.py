"""What can be set on a file sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from tidegate.connectors.spi import OnBranch
from tidegate.errors import ConfigError

__all__ = ["FileSinkOptions"]


@dataclass(frozen=True)
class FileSinkOptions:
    """Names of the files, and what happens when an older checkpoint is restored.

    Args:
        prefix: What file names begin with; no leading dot, so that listings show the files.
        suffix: What they end with; None takes the encoder's, such as `.jsonl`.
        on_branch: `refuse` to go back behind committed files, or `append` the replayed records to them.

    Raises:
        ConfigError: a value is not one of these.
    """

    prefix: str = "part"
    suffix: str | None = None
    on_branch: OnBranch = "refuse"

    def __post_init__(self) -> None:
        if self.on_branch not in get_args(OnBranch):
            raise ConfigError(f"file sink on_branch is {self.on_branch!r}; expected 'refuse' or 'append'")
