"""Converts records of any source to columns.

The columns of a dictionary are found by name, those of an object by attribute, those of a tuple or list by position; any
other value is the only column. A number in a TIMESTAMP column counts milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidegate.arrow_rows import ArrowRows
from tidegate.clock import SYSTEM_CLOCK, Clock
from tidegate.connectors.spi import Finished, NotYet, ReaderContext, Source, Split
from tidegate.elements import Batch
from tidegate.errors import RecordError, UnavailableError
from tidegate.ids import OperatorUid, Subtask
from tidegate.row import Row

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["arrow_schema", "columns", "read_piece"]

PATIENCE_S: Final = 120.0
_ROWS: Final = 10_000
_PAUSE_S: Final = 0.01
_LEAVES: Final = (str, bytes, int, float, bool, type(None), datetime)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of batches."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        found: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    except TypeError:
        found = to_arrow_schema(schema)  # PySpark 4.1 has no parameter for time zones and uses this one
    return found


def read_piece(
    source: Source[Any], piece: Split, schema: pa.Schema, clock: Clock = SYSTEM_CLOCK
) -> Iterator[pa.RecordBatch]:
    """All records of a bounded split.

    Raises:
        RecordError: a record does not match the schema.
        UnavailableError: no records arrived for too long.
    """
    context = ReaderContext(OperatorUid("source"), Subtask("source", 0), 1, clock)
    reader = source.open_reader(context)
    try:
        reader.add_splits([piece])
        reader.no_more_splits()
        deadline = clock.monotonic() + PATIENCE_S
        while not isinstance(found := reader.poll(_ROWS), Finished):
            if isinstance(found, Batch):
                deadline = clock.monotonic() + PATIENCE_S
                yield columns(found.values, schema)
            elif isinstance(found, NotYet):
                if clock.monotonic() > deadline:
                    raise UnavailableError(
                        f"split {piece.id}: no records arrived for {PATIENCE_S:.0f} s, although the split has more; check the "
                        "system"
                    )
                clock.sleep(_PAUSE_S)
    finally:
        reader.close()


def columns(values: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Records of one kind as a batch.

    Raises:
        RecordError: a record does not match the schema.
    """
    if isinstance(values, ArrowRows) and values.form == "dict" and len({*values.names}) == len(values.names):
        found = values.record_batch.select([name for name in schema.names if name in values.names])
        if found.schema.names == schema.names and found.schema.types == schema.types:
            return pa.RecordBatch.from_arrays(found.columns, schema=schema)
    arrays = []
    for index, field in enumerate(schema):
        take = _taker(values[0], field.name, index, len(schema))
        try:
            found = [take(value) for value in values]
            if pa.types.is_timestamp(field.type):
                found = [each * 1_000 if type(each) is int else each for each in found]
            arrays.append(pa.array(found, field.type))
        except (pa.ArrowException, TypeError, LookupError, AttributeError, OverflowError) as error:
            raise RecordError(
                f"column {field.name} of type {field.type} cannot be made of records such as {values[0]!r:.80} "
                f"({error}); set their types by .schema(...)"
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _taker(sample: Any, name: str, index: int, width: int) -> Callable[[Any], Any]:
    """A function that reads a column from records like this one."""
    if isinstance(sample, dict):
        return lambda record: record.get(name)
    if isinstance(sample, tuple | list | Row):
        return lambda record: record[index]
    if isinstance(sample, _LEAVES) or (width == 1 and not hasattr(sample, name)):
        return lambda record: _only(record, width)
    return lambda record: getattr(record, name)


def _only(record: Any, width: int) -> Any:
    if width != 1:
        raise TypeError(f"a single value makes one column, not {width}")
    return record
