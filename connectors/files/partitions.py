"""Partition commit: when a partition is complete, and how consumers are notified.

Files of a partition are seen with their checkpoints. A partition is *committed* once no more is expected of it: then,
with the checkpoint that finds it so, its policies are carried out, such as the one that writes `_SUCCESS`. A partition
that gets files later is committed again.

Example:
    >>> hourly = PartitionCommit("partition-time", delay_ms=3_600_000, timestamp_pattern="$dt $hr:00:00")
    >>> hourly.time_of({"dt": "1970-01-01", "hr": "02"})
    7200000
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from string import Template
from typing import Final, Literal, Protocol
from urllib.parse import unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from tidegate.clock import Clock
from tidegate.connectors.base.output_place import HIDDEN
from tidegate.connectors.base.pending_files import Announced, announced
from tidegate.connectors.base.places import committer_store
from tidegate.elements import MAX_WATERMARK
from tidegate.errors import ConfigError, StateFormatError, TidegateError, UnavailableError, UserCodeError
from tidegate.ids import CheckpointId
from tidegate.twophase.naming import escape
from tidegate.twophase.spi import Committable, CommitterContext, GlobalCommitter

__all__ = ["Partition", "PartitionCommit", "PartitionCommitPolicy", "PartitionCommitter", "SuccessFile"]

_NOTE: Final = "partitions.json"
_TRIGGERS: Final = ("process-time", "partition-time")


@dataclass(frozen=True)
class Partition:
    """A partition that is complete."""

    path: str
    """Its folder, or the URL of it in a bucket."""
    fields: Mapping[str, str]
    """What its folders' names say."""
    mark: Callable[[str], None]
    """Makes an empty file in it, durably; if it is there, nothing happens."""


class PartitionCommitPolicy(Protocol):
    """Notifies consumers of committed partitions; picklable."""

    def commit(self, partition: Partition) -> None:
        """Make it known that a partition is complete.

        Called in the coordinator's process, once for each time a partition is committed and again after a crash, so
        it has to be idempotent. May block.

        Raises:
            OSError: the system did not answer; it is called again.
        """
        ...


@dataclass(frozen=True)
class SuccessFile:
    """Writes an empty file into the partition's folder, as Hive and Spark do."""

    name: str = "_SUCCESS"

    def commit(self, partition: Partition) -> None:
        """Make it, durably."""
        partition.mark(self.name)


@dataclass(frozen=True)
class PartitionCommit:
    """When partitions are committed, and what that does.

    Args:
        trigger: When a partition is complete. `process-time`: the delay after its first file, regardless of late records;
            `partition-time`: when the watermark has passed the time of its fields.
        delay_ms: The delay; with 0, `process-time` does not wait.
        policies: Actions at its commit, in this order.
        timestamp_pattern: The time of a partition as a pattern of its fields: `$dt $hr:00:00`; None takes the first field.
        time_extractor: A function from a partition's fields to its time in milliseconds, instead of the pattern.
        zone: Time zone of the fields.

    Raises:
        ConfigError: a value makes no sense.
    """

    trigger: Literal["process-time", "partition-time"] = "process-time"
    delay_ms: int = 0
    policies: tuple[PartitionCommitPolicy, ...] = (SuccessFile(),)
    timestamp_pattern: str | None = None
    time_extractor: Callable[[Mapping[str, str]], int] | None = None
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.trigger not in _TRIGGERS:
            raise ConfigError(
                f"partition commit trigger is {self.trigger!r}; expected {' or '.join(map(repr, _TRIGGERS))}"
            )
        if self.delay_ms < 0:
            raise ConfigError(f"partition commit delay_ms is {self.delay_ms}; expected 0 or more")
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ConfigError(
                f"partition commit: time zone {self.zone!r} is unknown; expected, for example, 'UTC'"
            ) from error

    def time_of(self, fields: Mapping[str, str]) -> int:
        """The time of a partition.

        Raises:
            ConfigError: its fields do not tell one.
        """
        if self.time_extractor is not None:
            return self.time_extractor(fields)
        text = next(iter(fields.values()), "")
        try:
            if self.timestamp_pattern is not None:
                text = Template(self.timestamp_pattern).substitute(fields)
            moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(self.zone))
        except (KeyError, ValueError) as error:
            shown = "/".join(f"{name}={value}" for name, value in fields.items())
            raise ConfigError(
                f"partition {shown!r} has no time of pattern {self.timestamp_pattern!r} ({error!r}); expected a "
                "text such as '2024-05-01 07:00:00'; set timestamp_pattern or time_extractor"
            ) from error
        return int(moment.timestamp() * 1000)

    def is_due(
        self, fields: Mapping[str, str], *, created_ms: int, now_ms: int, watermark: int | None
    ) -> bool:
        """Whether nothing more is expected of a partition; at the end of all input nothing is of any."""
        if watermark == MAX_WATERMARK:
            return True
        if self.trigger == "process-time":
            return self.delay_ms == 0 or now_ms - created_ms > self.delay_ms
        return watermark is not None and watermark > self.time_of(fields) + self.delay_ms


class _Known(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """What is known of partitions after a checkpoint; `v` versions the encoding."""

    history: str
    checkpoint: int
    pending: dict[str, int]
    """When the partitions that are not committed got their first file."""
    due: tuple[str, ...]
    """The partitions that are committed with this checkpoint."""


class PartitionCommitter(GlobalCommitter):
    """Commits the partitions that are complete, checkpoint by checkpoint.

    What waits is written to a file next to the hidden files before anything is done, so a checkpoint that is finished a
    second time commits the same partitions.

    Args:
        directory: Where the output is.
        how: When and what.
        context: Whose output it is.
    """

    def __init__(self, directory: str | Path, how: PartitionCommit, context: CommitterContext) -> None:
        self._outlet = committer_store(directory, context.pipeline, context.uid)
        self._how = how
        self._uid = context.uid
        self._lineage = context.lineage
        self._clock: Clock = context.clock

    def commit(self, checkpoint: CheckpointId, committables: Sequence[Committable]) -> None:
        """Find out which partitions are complete, and carry out their policies."""
        news = [each for committable in committables for each in announced(committable)]
        if not news:
            return
        history = f"{escape(self._lineage)}.{max(each.branch for each in news)}"
        try:
            known = self._read()
            if known is None or known.history != history or known.checkpoint < checkpoint:
                known = self._judge(known.pending if known is not None else {}, news, history, checkpoint)
                self._write(known)
            if known.checkpoint == checkpoint:
                for name in known.due:
                    self._carry_out(name)
        except OSError as error:
            raise UnavailableError(
                f"sink {self._uid!r}: partitions of {self._outlet.display_name('')!r} cannot be committed now ({error}); "
                "retrying"
            ) from error

    def _judge(
        self, pending: dict[str, int], news: list[Announced], history: str, checkpoint: CheckpointId
    ) -> _Known:
        now_ms = self._clock.now_ms()
        # A clock that was set back would keep a partition waiting for that long.
        known = {name: min(created_ms, now_ms) for name, created_ms in pending.items()}
        waiting = {name: now_ms for each in news for name in each.partitions} | known
        watermark = _watermark(news)
        busy = {name for each in news for name in each.busy}
        due = tuple(
            sorted(
                name
                for name, created_ms in waiting.items()
                if name not in busy
                and self._how.is_due(
                    fields_of(name), created_ms=created_ms, now_ms=now_ms, watermark=watermark
                )
            )
        )
        left = {name: created_ms for name, created_ms in waiting.items() if name not in due}
        return _Known(history, checkpoint, left, due)

    def _carry_out(self, name: str) -> None:
        place = self._outlet
        partition = Partition(
            place.display_name(name), fields_of(name), lambda file: place.mark(f"{name}/{file}")
        )
        for policy in self._how.policies:
            try:
                policy.commit(partition)
            except (OSError, TidegateError):
                raise
            except Exception as error:
                raise UserCodeError(
                    f"sink {self._uid!r}: {type(policy).__name__} failed for partition {name!r}: {type(error).__name__}: {error}"
                ) from error

    def _read(self) -> _Known | None:
        noted = self._outlet.note(_NOTE)
        try:
            return None if noted is None else msgspec.json.decode(noted, type=_Known)
        except msgspec.MsgspecError as error:
            path = self._outlet.display_name(f"{HIDDEN}/{self._outlet.path(_NOTE)}")
            raise StateFormatError(
                f"sink {self._uid!r}: {path} cannot be read ({error}); expected version 1; run the version that "
                "wrote it, or remove the file to forget the partitions that wait for their commit"
            ) from error

    def _write(self, known: _Known) -> None:
        self._outlet.write_note(_NOTE, msgspec.json.encode(known))


def fields_of(name: str) -> dict[str, str]:
    """What a partition's folders say.

    Example:
        >>> fields_of("dt=2024-05-01/hr=07")
        {'dt': '2024-05-01', 'hr': '07'}
    """
    pairs = (folder.partition("=") for folder in name.split("/"))
    return {unquote(field): unquote(value) for field, _, value in pairs}


def _watermark(news: list[Announced]) -> int | None:
    """The minimum watermark of all writers; None if one of them has none yet."""
    newest: dict[int, Announced] = {}
    for each in news:
        if each.subtask not in newest or newest[each.subtask].checkpoint < each.checkpoint:
            newest[each.subtask] = each
    told = [each.watermark for each in newest.values()]
    parallelism = max(each.parallelism for each in news)
    if len(told) < parallelism or None in told:
        return None
    return min(mark for mark in told if mark is not None)
