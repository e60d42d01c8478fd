"""Client of pyarrow for Parquet and ORC files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.dataset as ds
import pyarrow.orc as orc
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from tidegate.arrow_rows import ArrowRows
from tidegate.connectors.base.part_file import Content, Summed
from tidegate.connectors.files.reading import Piece
from tidegate.connectors.files.split import FileSplit
from tidegate.dictionaries import columns
from tidegate.errors import ConfigError, RecordError
from tidegate.row import Row

__all__ = [
    "CsvBlocks",
    "OrcContent",
    "OrcPart",
    "ParquetContent",
    "ParquetPart",
    "conforming",
    "encoded",
    "from_snappy",
    "from_zstandard",
    "merge",
    "row_groups",
    "snappy",
    "stripes",
    "zstandard",
]

_ROWS = 4_096
"""How many rows are handed out at a time: if a step makes rows of more, they leave the processor's caches."""
_BLOCK_ROWS = 65_536
"""How many are read, tested or copied as columns."""
_ROW = "__row"
_REFUSALS = (pa.ArrowException, TypeError, ValueError, OverflowError)
_ALIKE = (
    (pa.types.is_integer, pa.types.is_integer),
    (pa.types.is_floating, pa.types.is_floating),
    (pa.types.is_floating, pa.types.is_integer),
    (pa.types.is_large_string, pa.types.is_string),
)
"""Kinds of types wanted and found between which a cast refuses what it cannot keep; fewer digits are asked for."""


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
            _check_columns(split.path, [*(self.columns or ()), *_tested(self.where)], file.schema_arrow.names)
            wanted = self._groups(file.num_row_groups)
            first = 0
            for group in range(file.num_row_groups):
                end = first + file.metadata.row_group(group).num_rows
                if group in wanted and first < split.stop and end > split.at:
                    yield from self._rows(file, group, first)
                first = end

    def _groups(self, count: int) -> set[int]:
        """The row groups that may hold a row that is wanted."""
        if self.where is None:
            return set(range(count))
        fragment = ds.ParquetFileFormat().make_fragment(self.split.path, LocalFileSystem())
        kept = fragment.subset(filter=pq.filters_to_expression(self.where))
        return {group.id for group in kept.row_groups}

    def _rows(self, file: Any, group: int, first: int) -> Iterator[Piece]:
        read = None if self.columns is None else list(dict.fromkeys([*self.columns, *_tested(self.where)]))
        for batch in file.iter_batches(_BLOCK_ROWS, row_groups=[group], columns=read):
            skip = max(0, self.split.at - first)
            if skip < len(batch):
                rows = range(first + skip, first + len(batch))
                table = pa.Table.from_batches([batch.slice(skip)])
                yield from _wanted(table, rows, self.columns, self.where)
            first += len(batch)


@dataclass(frozen=True)
class OrcPart:
    """Rows of an ORC file that are wanted."""

    split: FileSplit
    columns: tuple[str, ...] | None
    where: list[Any] | None

    def pieces(self) -> Iterator[Piece]:
        """Read them, one stripe after the other."""
        split, tested = self.split, _tested(self.where)
        file = _orc(split.path)
        _check_columns(split.path, [*(self.columns or ()), *tested], file.schema.names)
        read = None if self.columns is None else list(dict.fromkeys([*self.columns, *tested]))
        first = 0
        for stripe, (count, _) in enumerate(stripes(split.path)):
            if first < split.stop and first + count > split.at:
                skip = max(0, split.at - first)
                rows = pa.Table.from_batches([file.read_stripe(stripe, columns=read).slice(skip)])
                yield from _wanted(rows, range(first + skip, first + count), self.columns, self.where)
            first += count


def stripes(path: str) -> tuple[tuple[int, int], ...]:
    """How many rows and about how many bytes each stripe of an ORC file has; remembered while the file stays as it is.

    pyarrow tells the rows of all stripes together only, so of several each is read, of its thinnest column.
    """
    found = Path(path).stat()
    return _stripes(path, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=16)
def _stripes(path: str, size: int, changed_ns: int) -> tuple[tuple[int, int], ...]:
    file = _orc(path)
    total: int = file.nrows
    if file.nstripes <= 1:
        return ((total, size),) if total else ()
    thin = min(file.schema, key=_width).name
    counts: list[int] = [len(file.read_stripe(number, columns=[thin])) for number in range(file.nstripes)]
    return tuple((count, size * count // max(1, total)) for count in counts)


def _width(field: pa.Field) -> int:
    try:
        return int(field.type.bit_width)
    except ValueError:
        return 1 << 30  # a text, a list: unknown size


def _wanted(
    table: pa.Table, rows: range, columns: tuple[str, ...] | None, where: list[Any] | None
) -> Iterator[Piece]:
    """The rows that match the filter, and the columns."""
    bounds: list[int] | range = range(rows.start, rows.stop + 1)
    if where is not None:
        numbered = table.append_column(_ROW, pa.array(rows, pa.int64()))
        kept = numbered.filter(pq.filters_to_expression(where))
        bounds = [*kept.column(_ROW).to_pylist(), rows.stop]
        table = kept.drop_columns([_ROW])
    return _pieces(table if columns is None else table.select(columns), bounds)


def _pieces(table: pa.Table, bounds: Sequence[int]) -> Iterator[Piece]:
    """Rows as columns; only the rows that are read are converted."""
    start = 0
    for part in table.combine_chunks().to_batches(_ROWS):
        yield Piece(ArrowRows(part), bounds[start : start + len(part) + 1])
        start += len(part)


class CsvBlocks:
    """Lines of CSV in columns.

    Args:
        names: What the fields are called.
        types: Those that are wanted, and what pyarrow calls their types.
        delimiter: The separator of fields.
        quote: The quote character.
    """

    def __init__(self, names: Sequence[str], types: Mapping[str, str], delimiter: str, quote: str) -> None:
        self._reading = pc.ReadOptions(use_threads=False, column_names=list(names))
        self._parsing = pc.ParseOptions(delimiter=delimiter, quote_char=quote, ignore_empty_lines=False)
        self._converting = pc.ConvertOptions(
            check_utf8=False,
            column_types={name: pa.type_for_alias(alias) for name, alias in types.items()},
            null_values=[""],
            true_values=["true", "True", "TRUE"],
            false_values=["false", "False", "FALSE"],
            include_columns=list(types),
        )

    def columns(self, lines: bytes) -> list[list[Any]] | None:
        """Their values, nulls where a number or a truth value is empty; None if there are others among them."""
        self._reading.block_size = len(lines) + 1
        try:
            table = pc.read_csv(pa.BufferReader(lines), self._reading, self._parsing, self._converting)
        except pa.ArrowInvalid:
            return None
        return [column.to_pylist() for column in table.columns]


def encoded(values: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as columns.

    Raises:
        RecordError: a row has other fields than the schema, or a value that a column would not give back.
    """
    columns = _columns(values, schema.names)
    return pa.RecordBatch.from_arrays(
        [_array(column, field, values) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def conforming(rows: ArrowRows, schema: pa.Schema) -> pa.RecordBatch | None:
    """Columns as a schema wants them, a missing one null; None if only rows can tell whether they fit."""
    found = rows.record_batch
    if rows.form == "tuple" and found.num_columns == len(schema):
        found = found.rename_columns(schema.names)
    if not set(found.schema.names) <= set(schema.names) or len(set(found.schema.names)) < found.num_columns:
        return None
    arrays = []
    for field in schema:
        number = found.schema.get_field_index(field.name)
        array = pa.nulls(len(found), field.type) if number < 0 else found.column(number)
        if array.null_count and not field.nullable:
            return None
        if array.type != field.type:
            if not any(wanted(field.type) and other(array.type) for wanted, other in _ALIKE):
                return None
            try:
                array = array.cast(field.type)
            except pa.ArrowException:
                return None
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class ParquetContent(Content):
    """A Parquet file in the making; row groups are written when they have their rows."""

    def __init__(self, file: Summed, schema: pa.Schema, compression: str, row_group_rows: int) -> None:
        self._writer = pq.ParquetWriter(file, schema, compression=compression)
        self._most = row_group_rows
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, chunk: pa.RecordBatch) -> None:
        """Collect rows."""
        self._batches.append(chunk)
        self._rows += len(chunk)
        if self._rows >= self._most:
            self._flush()

    def end(self) -> None:
        """Write the last row group and the footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches))
            self._batches, self._rows = [], 0


class OrcContent(Content):
    """An ORC file in the making."""

    def __init__(self, file: Summed, schema: pa.Schema, compression: str) -> None:
        self._writer = orc.ORCWriter(file, compression=compression)
        # A file without a table would have no schema.
        self._writer.write(schema.empty_table())

    def write(self, chunk: pa.RecordBatch) -> None:
        """Append a table; ORC cuts stripes by itself."""
        self._writer.write(pa.Table.from_batches([chunk]))

    def end(self) -> None:
        """Write the footer."""
        self._writer.close()


def merge(sources: Sequence[IO[bytes]], content: Content, kind: str) -> None:
    """The rows of files, in their order, as one content."""
    for source in sources:
        if kind == "parquet":
            for batch in pq.ParquetFile(source).iter_batches(_BLOCK_ROWS):
                content.write(batch)
        else:
            for batch in orc.ORCFile(source).read().to_batches():
                content.write(batch)
    content.end()


def snappy(data: bytes) -> bytes:
    """Packed."""
    packed: bytes = pa.compress(data, codec="snappy", asbytes=True)
    return packed


def from_snappy(data: bytes) -> bytes:
    """Unpacked; how much it is comes first, seven bits a byte."""
    size = shift = 0
    for byte in data:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    unpacked: bytes = pa.decompress(data, size, codec="snappy", asbytes=True)
    return unpacked


def zstandard(data: bytes) -> bytes:
    """Packed."""
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


def from_zstandard(data: bytes) -> bytes:
    """Unpacked, also where nothing says how much it is."""
    with pa.input_stream(pa.py_buffer(data), compression="zstd") as stream:
        unpacked: bytes = stream.read()
    return unpacked


def _columns(values: list[Any], names: list[str]) -> list[list[Any]]:
    if set(map(type, values)) != {dict}:
        values = [_fields(value, names) for value in values]
    try:
        if set(map(len, values)) == {len(names)}:
            return columns(tuple(names))(values)
    except KeyError:
        pass
    known = set(names)
    for value in values:
        if unknown := value.keys() - known:
            raise RecordError(
                f"record {value!r:.80} has the unknown field {min(unknown, key=str)!r}; expected "
                f"{', '.join(names)}; map it first"
            )
    return [[value.get(name) for value in values] for name in names]


def _fields(value: Any, names: list[str]) -> dict[str, Any]:
    """A row by its names, or by position if it has none."""
    if isinstance(value, dict):
        return value
    if isinstance(value, Row) and value.names:
        return value.as_dict()
    if isinstance(value, (Row, tuple)) and len(value) == len(names):
        return dict(zip(names, value, strict=True))
    raise RecordError(
        f"record {value!r:.80} is a {type(value).__name__}; expected a dictionary, or a row or tuple of {len(names)}"
    )


def _array(column: list[Any], field: pa.Field, values: list[Any]) -> pa.Array:
    try:
        array = _exact(column, field.type)
    except _REFUSALS as error:
        raise _misfit(column, field, values, error) from error
    if array.null_count and not field.nullable:
        number = column.index(None)
        raise RecordError(f"record {values[number]!r:.80} has no {field.name!r}; expected {field.type}")
    return array


def _exact(column: list[Any], wanted: pa.DataType) -> pa.Array:
    """A column that preserves its values: with a given type, pyarrow drops fractions, hours and fields silently.

    The type that it finds by itself holds every value, so only where that is another kind has anything to be compared.
    """
    found = pa.array(column)
    if found.type == wanted:
        return found
    if any(is_one(wanted) and is_other(found.type) for is_one, is_other in _ALIKE):
        return found.cast(wanted)
    array = pa.array(column, wanted)
    if array.to_pylist() != column:
        raise ValueError("its value would change")
    return array


def _misfit(column: list[Any], field: pa.Field, values: list[Any], error: Exception) -> RecordError:
    """Name the first value that a column does not take."""
    for value, each in zip(values, column, strict=True):
        try:
            _exact([each], field.type)
        except _REFUSALS as alone:
            return RecordError(
                f"record {value!r:.80} has {each!r:.40} in {field.name!r} ({alone}); expected {field.type}"
            )
    return RecordError(f"column {field.name!r} cannot be written ({error}); expected {field.type}")


def _parquet(path: str) -> Any:
    try:
        return pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise RecordError(
            f"file {path} is not a valid Parquet file: {error}; expected a complete file"
        ) from error


def _orc(path: str) -> Any:
    try:
        return orc.ORCFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        # A file that is not ORC raises an OSError without errno.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise RecordError(
            f"file {path} is not a valid ORC file: {error}; expected a complete file"
        ) from error


def _check_columns(path: str, wanted: list[str] | tuple[str, ...], names: list[str]) -> None:
    for name in wanted:
        if name not in names:
            raise ConfigError(f"file {path} has no column {name!r}; expected one of {', '.join(names)}")


def _tested(where: list[Any] | None) -> list[str]:
    """The columns that `where` names."""
    return sorted(_named(where)) if where is not None else []


def _named(where: list[Any]) -> set[str]:
    """The columns that a filter names: a list of conditions, or a list of such lists."""
    return {name for each in where for name in ([each[0]] if isinstance(each, tuple) else _named(each))}
