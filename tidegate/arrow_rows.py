"""Arrow record batch as the values of a batch; converted to rows only when a step reads rows.

It is a sequence of rows: iterating over it, or reading one of them, converts all of them once. Slices, `select` and
`concat` stay Arrow. pyarrow is imported by the code that creates the record batch.

Example:
    >>> import pyarrow as pa
    >>> orders = ArrowRows(pa.record_batch({"id": [1, 2, 3], "user": ["ann", "bo", "cy"]}))
    >>> orders[1:].column("user"), orders.converted
    (['bo', 'cy'], False)
    >>> list(orders[1:])
    [{'id': 2, 'user': 'bo'}, {'id': 3, 'user': 'cy'}]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from tidegate.dictionaries import dictionaries

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.types import TypeInformation

__all__ = ["ArrowRows", "RowForm"]

RowForm: TypeAlias = Literal["dict", "tuple", "row"]
"""The class of rows: dictionaries, plain tuples, or `Row` with names."""


class ArrowRows(Sequence[Any]):
    """Rows stored as Arrow columns.

    Args:
        record_batch: The columns.
        form: The class of rows.
    """

    __slots__ = ("_rows", "form", "record_batch")

    def __init__(self, record_batch: pa.RecordBatch, form: RowForm = "dict") -> None:
        self.record_batch = record_batch
        self.form: RowForm = form
        self._rows: list[Any] | None = None

    @property
    def converted(self) -> bool:
        """Whether it was converted to rows."""
        return self._rows is not None

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        names: list[str] = self.record_batch.schema.names
        return names

    def has_type(self, declared: TypeInformation | None) -> bool:
        """Whether its rows are certainly of a declared type; true if there is no declared type."""
        if declared is None:
            return True
        from tidegate.arrow_schema import carries  # not needed by programs without Arrow

        return carries(declared, self)

    def rows(self) -> list[Any]:
        """The rows; the same list each time."""
        if self._rows is None:
            self._rows = self._converted()
        return self._rows

    def column(self, field: str | int) -> list[Any]:
        """The values of one field, by its name in a row.

        Raises:
            KeyError: rows of this form have no such field.
        """
        values: list[Any] = self.record_batch.column(self._index(field)).to_pylist()
        return values

    def select(self, places: Sequence[int]) -> ArrowRows:
        """The rows at these indexes, in this order."""
        import pyarrow as pa

        return ArrowRows(self.record_batch.take(pa.array(places, pa.int64())), self.form)

    def project(self, fields: Sequence[str | int], names: Sequence[str], form: RowForm) -> ArrowRows:
        """Rows of some of the fields, under these names.

        Raises:
            KeyError: rows of this form have no such field.
        """
        picked = self.record_batch.select([self._index(field) for field in fields])
        return ArrowRows(picked.rename_columns(list(names)), form)

    def unshared(self) -> ArrowRows:
        """A copy that shares the columns and creates its own rows, which may be changed."""
        return ArrowRows(self.record_batch, self.form)

    @staticmethod
    def concat(parts: Sequence[Any]) -> ArrowRows:
        """The concatenation of all parts.

        Raises:
            TypeError: they do not have the same columns.
        """
        import pyarrow as pa

        kinds = {type(part) for part in parts}
        if kinds != {ArrowRows} or any(part.layout != parts[0].layout for part in parts):
            raise TypeError("record batches with different columns cannot be concatenated")
        return ArrowRows(pa.concat_batches([part.record_batch for part in parts]), parts[0].form)

    @property
    def layout(self) -> tuple[Any, ...]:
        """The key of parts that can be concatenated."""
        return self.form, self.record_batch.schema

    def encoded(self) -> bytes:
        """The columns in Arrow's IPC stream format; `decode` reads them."""
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.record_batch.schema) as stream:
            stream.write_batch(self.record_batch)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    @staticmethod
    def decode(data: bytes, form: RowForm) -> ArrowRows:
        """The decoded rows."""
        import pyarrow as pa

        with pa.ipc.open_stream(data) as stream:
            return ArrowRows(stream.read_next_batch(), form)

    def __len__(self) -> int:
        count: int = self.record_batch.num_rows
        return count

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows())

    @overload
    def __getitem__(self, picked: int) -> Any: ...
    @overload
    def __getitem__(self, picked: slice) -> ArrowRows: ...
    def __getitem__(self, picked: int | slice) -> Any:
        if isinstance(picked, int):
            return self.rows()[picked]
        places = range(*picked.indices(len(self)))
        if places.step != 1:
            return self.select(places)
        return ArrowRows(self.record_batch.slice(places.start, len(places)), self.form)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ArrowRows):
            other = other.rows()
        return self.rows() == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it compares like a list

    def __repr__(self) -> str:
        return f"ArrowRows({len(self)} rows of {', '.join(self.names)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrowRows.decode, (self.encoded(), self.form)

    def _index(self, field: str | int) -> int:
        if isinstance(field, int) and self.form != "dict" and 0 <= field < len(self.names):
            return field
        if isinstance(field, str) and self.form != "tuple" and self.names.count(field) == 1:
            return self.names.index(field)
        raise KeyError(field)

    def _converted(self) -> list[Any]:
        columns = [column.to_pylist() for column in self.record_batch.columns]
        if self.form == "dict":
            return dictionaries(tuple(self.names))(columns)
        rows = list(zip(*columns, strict=True))
        if self.form == "tuple":
            return rows
        from tidegate.row import Row  # an import cycle otherwise

        names = tuple(self.names)
        return [Row.of(list(values), names) for values in rows]
