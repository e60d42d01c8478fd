"""Options of the database sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from tidegate.connectors.spi import OnBranch
from tidegate.errors import ConfigError
from tidegate.options import PartialOptions, check_ranges, option

__all__ = ["DatabaseSinkOptions", "WriteMode"]

WriteMode = Literal["positions", "staged", "prepared", "at-least-once"]

_KEY: Final = "connector.database.sink."


@dataclass(frozen=True)
class DatabaseSinkOptions(PartialOptions):
    """How a sink writes.

    Args:
        mode: `positions`: rows are visible at once, and a write with an older position does nothing. `staged`: rows wait in
            another table of the database until their checkpoint is decided. `prepared`: they wait in a prepared transaction.
            `at-least-once`: rows are visible at once, and a restart writes some of them again. None is `positions` where the
            sink has a position, else `staged`.
        buffer_rows: The maximum number of rows in memory before they are sent.
        flush_interval_ms: The maximum time that rows wait in memory, in modes whose rows are visible at once.
        on_branch: What happens to rows committed after a checkpoint when this checkpoint is restored. None is `append` with a
            key, where the replayed rows replace them, else `refuse`.
        schema: The schema of the sink's own tables; None is that of the table it writes.
        prepared_alarm_ms: The age at which a prepared transaction is reported.
        take_over: Replace the claim of a pipeline of the same name with its checkpoints elsewhere, and remove its work.

    Raises:
        ConfigError: a value is not one of these.
    """

    mode: WriteMode | None = option(
        _KEY + "mode",
        None,
        "positions, staged, prepared or at-least-once; default: positions where the sink has a position, else staged",
    )
    buffer_rows: int = option(_KEY + "buffer-rows", 10_000, "maximum number of rows in memory")
    flush_interval_ms: int = option(
        _KEY + "flush-interval",
        200,
        "maximum time that rows wait in memory, if they are visible at once",
        least=0,
    )
    on_branch: OnBranch | None = option(
        _KEY + "on-branch",
        None,
        "when an older checkpoint is restored: refuse if rows were committed after it, or append; default: append with a "
        "key, else refuse",
    )
    schema: str | None = option(
        _KEY + "schema", None, "schema of the sink's own tables; default: that of the table"
    )
    prepared_alarm_ms: int = option(
        _KEY + "prepared-alarm", 600_000, "age at which a prepared transaction is reported"
    )
    take_over: bool = option(
        _KEY + "take-over", False, "take over the sink's work from the pipeline that claimed it"
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.mode is not None and self.mode not in get_args(WriteMode):
            raise ConfigError(
                f"database sink mode is {self.mode!r}; expected one of {', '.join(get_args(WriteMode))}"
            )
        if self.on_branch is not None and self.on_branch not in get_args(OnBranch):
            raise ConfigError(f"database sink on_branch is {self.on_branch!r}; expected 'refuse' or 'append'")
