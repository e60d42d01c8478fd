"""Bucket assigners: the folder below the base path for each record.

Example:
    >>> context = BucketContext(timestamp=0, now_ms=0, watermark=None)
    >>> TimeBuckets("yyyy/MM/dd", "UTC").get_bucket_id({"id": 1}, context)
    '1970/01/01'
    >>> HivePartitions("day", "hour").get_bucket_id({"id": 1, "day": "2024-05-01", "hour": 7}, context)
    'day=2024-05-01/hour=7'
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from itertools import repeat
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidegate.arrow_rows import ArrowRows
from tidegate.elements import Batch
from tidegate.errors import ConfigError, RecordError

__all__ = ["BucketAssigner", "BucketContext", "FunctionBuckets", "HivePartitions", "TimeBuckets"]

_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
_SPECIAL: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_FIELDS: Final = {"y": "%Y", "M": "%m", "d": "%d", "H": "%H", "m": "%M", "s": "%S"}
_PATTERN: Final = re.compile(r"'((?:[^']|'')*)'|yyyy|MM|dd|HH|mm|ss|[A-Za-z]+|[^A-Za-z']+")


@dataclass(slots=True)
class BucketContext:
    """The surroundings of a record; valid during the call only."""

    timestamp: int | None
    """The record's event time, if it has one."""
    now_ms: int
    watermark: int | None


class BucketAssigner(ABC):
    """Tells the folder of each record; picklable. Subclass it for folders of your own."""

    @abstractmethod
    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """The folder below the base path, with `/` between its parts; the empty text is the base path itself.

        Raises:
            RecordError: it cannot be told.
        """

    def content(self, element: Any) -> Any:
        """What is written of a record; the folder's name may say the rest."""
        return element

    def deal(self, batch: Batch, now_ms: int, watermark: int | None) -> Mapping[str, Sequence[Any]]:
        """What is written of a batch, by folder."""
        dealt: dict[str, list[Any]] = {}
        context = BucketContext(None, now_ms, watermark)
        bucket_of, content = self.get_bucket_id, self.content
        for value, timestamp in zip(batch.values, batch.timestamps or repeat(None), strict=False):
            context.timestamp = timestamp
            dealt.setdefault(bucket_of(value, context), []).append(content(value))
        return dealt

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """No folders: files are in the base path itself."""
        return _BASE_PATH

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> TimeBuckets:
        """Folders by the time at which records are written."""
        return TimeBuckets(format_str, timezone_id)


@dataclass(frozen=True)
class TimeBuckets(BucketAssigner):
    """Folders by time.

    Args:
        pattern: Their names, of `yyyy`, `MM`, `dd`, `HH`, `mm`, `ss`, texts within `'` and signs.
        zone: Whose hours these are, such as `Europe/Vienna`; None takes those of the machine.
        by: `processing` takes the time at which a record is written, `event` its own.

    Raises:
        ConfigError: the pattern or the zone makes no sense.
    """

    pattern: str = "yyyy-MM-dd--HH"
    zone: str | None = None
    by: Literal["processing", "event"] = "processing"

    def __post_init__(self) -> None:
        if self.by not in ("processing", "event"):
            raise ConfigError(f"time buckets: by is {self.by!r}; expected 'processing' or 'event'")
        self._directives  # noqa: B018  # a pattern that makes no sense is found out here
        self._tzinfo  # noqa: B018

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """The time by the pattern, to the second."""
        at = context.now_ms if self.by == "processing" else context.timestamp
        if at is None:
            raise RecordError(
                f"record {element!r:.80} has no event time to choose its bucket; assign timestamps, or use "
                "by='processing'"
            )
        second = at // 1000
        if self._last[0] != second:
            moment = datetime.fromtimestamp(second, UTC).astimezone(self._tzinfo)
            self._last[:] = [second, moment.strftime(self._directives)]
        bucket: str = self._last[1]
        return bucket

    def deal(self, batch: Batch, now_ms: int, watermark: int | None) -> Mapping[str, Sequence[Any]]:
        """All of it in one folder, unless records have their own times."""
        if self.by == "event" or type(self) is not TimeBuckets:
            return super().deal(batch, now_ms, watermark)
        return {self.get_bucket_id(None, BucketContext(None, now_ms, watermark)): batch.values}

    @cached_property
    def _last(self) -> list[Any]:
        """The last second that was asked for, and its folder."""
        return [None, ""]

    @cached_property
    def _tzinfo(self) -> tzinfo | None:
        if self.zone is None:
            return None
        try:
            return ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ConfigError(
                f"time zone {self.zone!r} is unknown; expected a name such as 'Europe/Vienna'"
            ) from error

    @cached_property
    def _directives(self) -> str:
        made = []
        for match in _PATTERN.finditer(self.pattern):
            token = match[0]
            if match[1] is not None:
                token = match[1].replace("''", "'") or "'"
            elif token[0].isalpha() and token not in ("yyyy", "MM", "dd", "HH", "mm", "ss"):
                raise ConfigError(
                    f"time pattern {self.pattern!r} has the unknown part {token!r}; expected yyyy, MM, dd, HH, "
                    "mm, ss, and other letters within '...'"
                )
            elif token[0].isalpha():
                made.append(_FIELDS[token[0]])
                continue
            made.append(token.replace("%", "%%"))
        return "".join(made)


@dataclass(frozen=True)
class FunctionBuckets(BucketAssigner):
    """Folders by a function of the record."""

    function: Callable[[Any], str]

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """What the function says."""
        bucket = self.function(element)
        if type(bucket) is not str:
            raise RecordError(
                f"bucket of record {element!r:.80} is {bucket!r:.80}; expected a string, the path of a folder"
            )
        return bucket


class HivePartitions(BucketAssigner):
    """Folders such as `day=2024-05-01/hour=7` by fields of the records, which are dictionaries.

    The fields are said by the folders' names and left out of the files, as in Hive.

    Raises:
        ConfigError: no field is named, or one twice.
    """

    def __init__(self, *fields: str) -> None:
        if not fields or len(set(fields)) != len(fields):
            raise ConfigError(f"partition fields are {fields}; expected different names, at least one")
        self.fields = fields

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """A folder for each field."""
        try:
            return self._folder([element[name] for name in self.fields])
        except (KeyError, TypeError, IndexError) as error:
            raise RecordError(
                f"record {element!r:.80} has no partition field ({error}); expected a dictionary with "
                f"{', '.join(self.fields)}"
            ) from error

    def deal(self, batch: Batch, now_ms: int, watermark: int | None) -> Mapping[str, Sequence[Any]]:
        """What is written of a batch, by folder; of Arrow rows only the fields of the folders are read."""
        rows = batch.values
        if not isinstance(rows, ArrowRows) or rows.form != "dict" or not set(self.fields) < set(rows.names):
            return super().deal(batch, now_ms, watermark)
        dealt: dict[str, list[int]] = {}
        for place, found in enumerate(zip(*map(rows.column, self.fields), strict=True)):
            dealt.setdefault(self._folder(found), []).append(place)
        others = [name for name in rows.names if name not in self.fields]
        left = rows.project(others, others, "dict")
        return {folder: left.select(places) for folder, places in dealt.items()}

    def content(self, element: Any) -> Any:
        """The other fields."""
        return {name: value for name, value in element.items() if name not in self.fields}

    def _folder(self, found: Sequence[Any]) -> str:
        pairs = zip(self.fields, found, strict=True)
        return "/".join(f"{_escaped(name)}={_escaped(value)}" for name, value in pairs)


class _BasePath(BucketAssigner):
    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        return ""

    def deal(self, batch: Batch, now_ms: int, watermark: int | None) -> Mapping[str, Sequence[Any]]:
        return {"": batch.values}


_BASE_PATH = _BasePath()


def _escaped(value: Any) -> str:
    """A name or value escaped as in Hive: characters that a path cannot have as `%XX`."""
    if value is None or value == "":
        return _NO_VALUE
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", text)
