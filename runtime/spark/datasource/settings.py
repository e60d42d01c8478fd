"""Options of the data source: its own, and those of the connector.

Spark passes all names in lower case.

Example:
    >>> common, rest = split({"connector": "kafka", "maxrecordspertrigger": "10", "topic": "orders"})
    >>> common.connector, common.most, rest
    ('kafka', 10, {'topic': 'orders'})
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tidegate import faults
from tidegate.backends.private import parse_mode
from tidegate.backends.spi import CheckpointStorage
from tidegate.backends.storage import below, open_storage
from tidegate.connectors.spi import RowSink, RowSource
from tidegate.errors import ConfigError
from tidegate.options import Layer, load, option
from tidegate.registry import load as load_entry, names

__all__ = ["Settings", "row_sink", "row_source", "split", "storage_of"]

_SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "file": "file"}


@dataclass(frozen=True)
class Settings:
    """Options of the data source itself.

    Raises:
        ConfigError: a number is out of range.
    """

    connector: str = option("connector", "", "which connector reads or writes")
    decisions: str | None = option("decisions", None, "where what is decided of batches is kept")
    mode: str | None = option("decisionsmode", None, "octal mode of new directories there, such as 0770")
    checkpoint: str | None = option("checkpointlocation", None, "Spark's own; decisions are kept below it")
    id: str | None = option("id", None, "the id of a write that is not a stream")
    attempts: int = option("attempts", 32, "how many attempts at one part of a batch have names of their own")
    accept_loss: int | None = option("accept_loss", None, "a batch of which a part may be lost")
    most: int | None = option("maxrecordspertrigger", None, "how many records a batch of a stream may have")
    splits: int | None = option("maxsplitspertrigger", None, "how many splits that cannot be cut it may have")
    faults: str = option("testing.faults", "", "where processes die, for tests")
    faults_dir: str = option("testing.faults-dir", "", "where they say so")

    def __post_init__(self) -> None:
        if not self.connector:
            raise ConfigError(
                "the data source has no connector; expected one, such as .option('connector', 'kafka')"
            )
        _ = self.new_mode
        if self.attempts < 1:
            raise ConfigError(f"option attempts is {self.attempts}; expected at least 1")
        for name, value in (("maxRecordsPerTrigger", self.most), ("maxSplitsPerTrigger", self.splits)):
            if value is not None and value < 1:
                raise ConfigError(f"option {name} is {value}; expected at least 1")

    @property
    def new_mode(self) -> int | None:
        """The mode of directories that are made for decisions; None for the default."""
        return None if self.mode is None else parse_mode(self.mode, "option decisionsMode")

    def arm(self, role: str) -> None:
        """Arm the crash points of a test in this process."""
        if self.faults:
            faults.arm(faults.parse(self.faults), role, Path(self.faults_dir))


_KEYS = {field.metadata["key"] for field in Settings.__dataclass_fields__.values()}


def split(options: Mapping[str, str]) -> tuple[Settings, dict[str, str]]:
    """Our options, and the others.

    Raises:
        ConfigError: one of ours is wrong.
    """
    lower = {key.lower(): value for key, value in options.items()}
    ours = {key: value for key, value in lower.items() if key in _KEYS}
    return load(Settings, Layer("the options", ours)), {
        key: value for key, value in lower.items() if key not in _KEYS
    }


def row_source(settings: Settings) -> RowSource:
    """The connector, to read.

    Raises:
        ConfigError: it does not exist, or cannot be read as rows.
    """
    found = _connector(settings)
    if not isinstance(found, RowSource):
        raise ConfigError(f"connector {settings.connector!r} cannot be read as a table; it is only written")
    return found


def row_sink(settings: Settings) -> RowSink:
    """The connector, to write.

    Raises:
        ConfigError: it does not exist, or cannot be written as rows.
    """
    found = _connector(settings)
    if not isinstance(found, RowSink):
        raise ConfigError(f"connector {settings.connector!r} cannot be written as a table; it is only read")
    return found


def storage_of(settings: Settings) -> CheckpointStorage:
    """The storage of decisions: from the option, or next to Spark's own checkpoints.

    Example:
        >>> storage_of(Settings("kafka", checkpoint="s3a://state/orders")).url
        's3://state/orders/tidegate'

    Raises:
        ConfigError: no option sets it, or it is on a system that cannot create files exclusively.
    """
    if settings.decisions is not None:
        return open_storage(settings.decisions, settings.new_mode)
    if settings.checkpoint is None:
        raise ConfigError(
            "a sink stores its decisions next to Spark's checkpoints, but their location is not set; set the option "
            "checkpointLocation of the query, or the option decisions to a directory or s3:// that all machines share"
        )
    scheme, path = _parts(settings.checkpoint)
    if scheme not in _SCHEMES:
        raise ConfigError(
            f"checkpointLocation {settings.checkpoint!r} is on a system that cannot keep decisions; expected a shared "
            "directory, file: or s3a:; set the option decisions to one"
        )
    if scheme == "file":
        return open_storage(
            Path(unquote(path) if ":" in settings.checkpoint else path) / "tidegate", settings.new_mode
        )
    return open_storage(below(f"s3://{path}", "tidegate"))


def _parts(location: str) -> tuple[str, str]:
    """Scheme and path; Spark writes `file:/path` as well as `file:///path` and `/path`."""
    match = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*):(?://)?(.*)", location)
    return (match[1].lower(), match[2]) if match else ("file", location)


def _connector(settings: Settings) -> Any:
    known = names("tidegate.connectors")
    if f"{settings.connector}.rows" not in known:
        usable = ", ".join(name.removesuffix(".rows") for name in known if name.endswith(".rows"))
        if any(name.startswith(f"{settings.connector}.") for name in known):
            raise ConfigError(
                f"connector {settings.connector!r} works only in tidegate programs: it offers no rows "
                f"({settings.connector}.rows); tables and streams of Spark have {usable}"
            )
        near = get_close_matches(settings.connector, usable.split(", "), n=1)
        hint = f"did you mean {near[0]!r}" if near else f"known are {usable}"
        raise ConfigError(f"no connector of tables and streams is called {settings.connector!r}; {hint}")
    return load_entry("tidegate.connectors", f"{settings.connector}.rows")()
