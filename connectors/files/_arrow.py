"""What Parquet and ORC need of pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc as orc
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from tidegate.connectors.files.reading import Piece
from tidegate.connectors.files.split import FileSplit
from tidegate.errors import ConfigError, RecordError

__all__ = ["ParquetPart", "orc_pieces", "orc_rows", "row_groups"]

_ROWS = 4_096
_ROW = "__row"


def row_groups(path: str) -> list[tuple[int, int]]:
    """How many rows and bytes each row group of a Parquet file has."""
    with _parquet(path) as file:
        groups = map(file.metadata.row_group, range(file.num_row_groups))
        return [(group.num_rows, group.total_byte_size) for group in groups]


@dataclass(frozen=True)
class ParquetPart:
    """Rows of a Parquet file that are wanted."""

    split: FileSplit
    columns: tuple[str, ...] | None
    where: list[Any] | None

    def pieces(self) -> Iterator[Piece]:
        """Read them, one row group after the other."""
        split = self.split
        with _parquet(split.path) as file:
            _check_columns(split.path, [*(self.columns or ()), *self._tested], file.schema_arrow.names)
            wanted = self._groups(file.num_row_groups)
            first = 0
            for group in range(file.num_row_groups):
                end = first + file.metadata.row_group(group).num_rows
                if group in wanted and first < split.stop and end > split.at:
                    yield from self._rows(file, group, first)
                first = end

    @property
    def _tested(self) -> list[str]:
        """The columns that `where` names."""
        return sorted(_named(self.where)) if self.where is not None else []

    def _groups(self, count: int) -> set[int]:
        """The row groups that may hold a row that is wanted."""
        if self.where is None:
            return set(range(count))
        fragment = ds.ParquetFileFormat().make_fragment(self.split.path, LocalFileSystem())
        kept = fragment.subset(filter=pq.filters_to_expression(self.where))
        return {group.id for group in kept.row_groups}

    def _rows(self, file: Any, group: int, first: int) -> Iterator[Piece]:
        read = None if self.columns is None else list(dict.fromkeys([*self.columns, *self._tested]))
        for batch in file.iter_batches(_ROWS, row_groups=[group], columns=read):
            skip = max(0, self.split.at - first)
            if skip < len(batch):
                rows = range(first + skip, first + len(batch))
                yield self._piece(pa.Table.from_batches([batch.slice(skip)]), rows)
            first += len(batch)

    def _piece(self, table: pa.Table, rows: range) -> Piece:
        bounds: list[int] | range = range(rows.start, rows.stop + 1)
        if self.where is not None:
            numbered = table.append_column(_ROW, pa.array(rows, pa.int64()))
            kept = numbered.filter(pq.filters_to_expression(self.where))
            bounds = [*kept.column(_ROW).to_pylist(), rows.stop]
            table = kept.drop_columns([_ROW])
        return Piece((table if self.columns is None else table.select(self.columns)).to_pylist(), bounds)


def orc_rows(path: str) -> int:
    """How many rows an ORC file has."""
    count: int = _orc(path).nrows
    return count


def orc_pieces(split: FileSplit, columns: tuple[str, ...] | None) -> Iterator[Piece]:
    """The rows of an ORC file from a part's beginning, one stripe after the other."""
    file = _orc(split.path)
    _check_columns(split.path, columns or (), file.schema.names)
    first = 0
    for stripe in range(file.nstripes):
        rows = file.read_stripe(stripe, columns=None if columns is None else list(columns))
        end = first + len(rows)
        skip = max(0, split.at - first)
        if skip < len(rows):
            yield Piece(rows.slice(skip).to_pylist(), range(first + skip, end + 1))
        first = end


def _parquet(path: str) -> Any:
    try:
        return pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise RecordError(f"file {path} is no Parquet: {error}; expected a complete file") from error


def _orc(path: str) -> Any:
    try:
        return orc.ORCFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        # What is no ORC is an OSError without a number.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise RecordError(f"file {path} is no ORC: {error}; expected a complete file") from error


def _check_columns(path: str, wanted: list[str] | tuple[str, ...], names: list[str]) -> None:
    for name in wanted:
        if name not in names:
            raise ConfigError(f"file {path} has no column {name!r}; it has {', '.join(names)}")


def _named(where: list[Any]) -> set[str]:
    """The columns that a filter names: a list of conditions, or a list of such lists."""
    return {name for each in where for name in ([each[0]] if isinstance(each, tuple) else _named(each))}
