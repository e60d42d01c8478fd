"""Options of the Postgres source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from tidegate.cdc.postgres.types import SpecialDates
from tidegate.errors import ConfigError
from tidegate.options import PartialOptions, check_ranges, option

__all__ = ["PostgresOptions", "StartMode"]

StartMode: TypeAlias = Literal["initial", "initial-only", "latest"]
OnTruncate: TypeAlias = Literal["fail", "skip"]
SlotExists: TypeAlias = Literal["refuse", "recreate"]

_PREFIX: Final = "connector.postgres-cdc."


@dataclass(frozen=True)
class PostgresOptions(PartialOptions):
    """Options of a source.

    Args:
        start: at the first start, load the tables and then follow the log (`initial`), end after the load (`initial-only`), or
            follow the log from now on (`latest`).
        chunk_rows: rows of a table that are read in one transaction.
        on_truncate: at a TRUNCATE, which no row can represent, `fail` or `skip` it. Change events can represent it.
        slot_exists: at a first start, `refuse` a slot that exists already, or drop and `recreate` it.
        streaming: whether the server sends large transactions before they are committed; they are kept in local files.
        special_dates: `fail` at dates that Python does not have, such as infinity, or read them as `null`.
        connect_timeout_ms: how long the server may take to answer, and to create a slot.

    Raises:
        ConfigError: a value is not one of these.
    """

    start: StartMode = option(
        _PREFIX + "start", "initial", "what to read first: initial, initial-only or latest"
    )
    chunk_rows: int = option(
        _PREFIX + "chunk-rows", 100_000, "rows of a table that are read in one transaction"
    )
    on_truncate: OnTruncate = option(
        _PREFIX + "on-truncate", "fail", "at a TRUNCATE, which no row can represent: fail or skip"
    )
    slot_exists: SlotExists = option(
        _PREFIX + "slot-exists", "refuse", "at a first start, if the slot exists already: refuse or recreate"
    )
    streaming: bool = option(
        _PREFIX + "streaming", False, "whether the server sends large transactions before they are committed"
    )
    special_dates: SpecialDates = option(
        _PREFIX + "special-dates", "fail", "dates that Python does not have, such as infinity: fail or null"
    )
    connect_timeout_ms: int = option(
        _PREFIX + "connect-timeout", 30_000, "how long the server may take to answer and to create a slot"
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        for name, kind in (
            ("start", StartMode),
            ("on_truncate", OnTruncate),
            ("slot_exists", SlotExists),
            ("special_dates", SpecialDates),
        ):
            value, known = getattr(self, name), get_args(kind)
            if value not in known:
                raise ConfigError(f"postgres source {name} is {value!r}; expected one of {', '.join(known)}")
