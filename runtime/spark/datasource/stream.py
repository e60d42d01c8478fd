"""A source as a Spark stream: batches up to a limit; a repeated batch reads the same records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tidegate.clock import SYSTEM_CLOCK, Clock
from tidegate.connectors.spi import (
    Source,
    Split,
    SplitEnumerator,
    SupportsBacklog,
    SupportsDiscovery,
    SupportsRanges,
)
from tidegate.errors import ConfigError
from tidegate.ids import CheckpointId, SplitId
from tidegate.runtime.spark.datasource.plan import Offset, cut, decode_splits, encode_splits, shares
from tidegate.runtime.spark.datasource.records import arrow_schema, read_piece
from tidegate.runtime.spark.datasource.settings import Settings, row_source, split

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["StreamReader"]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the driver, reads their pieces in tasks.

    Raises:
        ConfigError: the source is not replayable, or is unbounded without a limit.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, clock: Clock = SYSTEM_CLOCK) -> None:
        self._settings, rest = split(options)
        self._source: Source[Any] = row_source(self._settings).source(rest, bounded=False)
        _check(self._settings, self._source)
        self._schema = schema
        self._clock = clock
        self._splits: _Splits | None = None
        self._now: dict[SplitId, int] | None = None
        self._only_now = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The offset before any split was found."""
        return Offset().as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of a batch from the options."""
        if self._settings.most is not None:
            return ReadMaxRows(self._settings.most)
        if self._settings.splits is not None:
            return ReadMaxFiles(self._settings.splits)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read the records that exist now, then stop."""
        self._only_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch; `start` itself if there is nothing to read."""
        if self._splits is None or self._splits.at != start:
            self._leave()
            self._splits = _Splits(self._source, start, self._clock)
        elif not self._only_now:
            self._splits.look()
        left = self._splits.left
        there = self._there(left)
        wanted = shares(
            self._source,
            there,
            rows=getattr(limit, "max_rows", None),
            splits=getattr(limit, "max_files", None),
        )
        for each, share in zip(left, wanted, strict=True):
            if self._now is not None and share is not None:
                self._now[each.id] -= share
        return self._splits.advance(*cut(self._source, left, wanted))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        """The pieces up to `end`."""
        if start == end:
            return []
        return [
            InputPartition(piece) for piece in decode_splits(Offset.of(end).pieces, self._source.split_type)
        ]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The records of a piece; runs in a task."""
        yield from read_piece(self._source, partition.value, arrow_schema(self._schema))

    def stop(self) -> None:
        """Close the connection."""
        self._leave()

    def _there(self, left: Sequence[Split]) -> Sequence[int | None]:
        """The number of records of each split; counted once per run if it reads only records that existed at its start."""
        if not isinstance(self._source, SupportsBacklog):
            return [None] * len(left)
        if self._now is not None:
            return [self._now.setdefault(each.id, 0) for each in left]
        there = self._source.backlog(left)
        if self._only_now:
            self._now = {each.id: count for each, count in zip(left, there, strict=True)}
        return there

    def _leave(self) -> None:
        if self._splits is not None:
            self._splits.close()
            self._splits = None


class _Splits:
    """The remaining splits at an offset, and the enumerator that finds more; acts as its only reader."""

    parallelism = 1
    owner = ""

    def __init__(self, source: Source[Any], start: dict[str, Any], clock: Clock) -> None:
        self.at = start
        self.left: list[Split] = []
        self._clock = clock
        offset = Offset.of(start)
        self._enumerator: SplitEnumerator[Any] = source.open_enumerator(self, offset.enumerator)
        self._enumerator.start()
        self._enumerator.give_back(decode_splits(offset.rest, source.split_type))
        self._looked = clock.monotonic()
        self._take()

    def assign(self, reader: int, splits: Sequence[Split]) -> None:
        """Add splits."""
        self.left += splits

    def no_more_splits(self, reader: int) -> None:
        """No effect: a stream requests splits again anyway."""

    def send_event(self, reader: int, event: bytes) -> None:
        """Refused: no reader stays open to receive it."""
        raise ConfigError(
            "a source sends events to its readers, which do not stay open on Spark; use another source"
        )

    def look(self) -> None:
        """Look for more splits, if it is time."""
        found = self._enumerator
        if not isinstance(found, SupportsDiscovery) or found.discovery_interval_ms is None:
            return
        if self._clock.monotonic() - self._looked >= found.discovery_interval_ms / 1_000:
            self._looked = self._clock.monotonic()
            found.discovered(found.discover())
            self._take()

    def advance(self, pieces: Sequence[Split], rest: list[Split]) -> dict[str, Any]:
        """The offset after these pieces; the same object as before if nothing changed."""
        snapshot = self._enumerator.snapshot(CheckpointId(0))
        after = Offset(encode_splits(rest), encode_splits(pieces), snapshot)
        before = Offset.of(self.at)
        if pieces or (after.rest, snapshot) != (before.rest, before.enumerator):
            self.at, self.left = after.as_json(), rest
        return self.at

    def close(self) -> None:
        """Close the enumerator."""
        self._enumerator.close()

    def _take(self) -> None:
        known = -1
        while len(self.left) > known:
            known = len(self.left)
            self._enumerator.request(0)


def _check(settings: Settings, source: Source[Any]) -> None:
    if source.continuous or not source.replayable:
        raise ConfigError(
            f"connector {settings.connector!r} cannot be a stream of Spark, because it is not replayable; "
            "write it to Kafka or to files first"
        )
    endless = (
        not source.bounded and isinstance(source, SupportsRanges) and not isinstance(source, SupportsBacklog)
    )
    if endless and settings.most is None:
        raise ConfigError(
            f"connector {settings.connector!r} is unbounded; expected the option maxRecordsPerTrigger, which limits how much "
            "a batch reads"
        )
