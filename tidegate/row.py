"""Row type: fields known only at run time, positional and optionally named, with a row kind.

Example:
    >>> row = Row(id=7, name="ada")
    >>> row.name, row[0], row
    ('ada', 7, Row(id=7, name='ada'))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

from tidegate.elements import Batch, RowKind
from tidegate.errors import ConfigError, RecordError

__all__ = ["Row", "kind_of", "kinds_of", "kinds_or_none", "refuse_change", "values_with_kinds", "with_kind"]


class Row:
    """Values by position, and by name where names were given.

    Its hash is that of its values, so one that lies in a set or dictionary must not be changed.
    """

    __slots__ = ("_kind", "_names", "_values")

    _kind: RowKind
    _names: tuple[str, ...]
    _values: list[Any]

    def __init__(self, *values: Any, **fields: Any) -> None:
        if values and fields:
            raise ConfigError("a row has positional or named fields; got both; name all fields or none")
        object.__setattr__(self, "_values", list(fields.values() if fields else values))
        object.__setattr__(self, "_names", tuple(fields))
        object.__setattr__(self, "_kind", RowKind.INSERT)

    @classmethod
    def of(cls, values: Sequence[Any], names: Sequence[str] = (), kind: RowKind = RowKind.INSERT) -> Row:
        """A row from its parts.

        Raises:
            ConfigError: names and values differ in number, or a name repeats.
        """
        row = cls(*values)
        row.set_field_names(names)
        row.set_row_kind(kind)
        return row

    @staticmethod
    def of_kind(row_kind: RowKind, *values: Any, **fields: Any) -> Row:
        """A row of this kind."""
        row = Row(*values, **fields)
        row.set_row_kind(row_kind)
        return row

    @property
    def names(self) -> tuple[str, ...]:
        """The field names, empty when the row is positional."""
        return self._names

    def get_row_kind(self) -> RowKind:
        """The row kind: the change to the row's table."""
        return self._kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the row kind: the change to the row's table."""
        kind = RowKind(row_kind)
        if kind is not RowKind.INSERT:
            _seen.add(kind)
        object.__setattr__(self, "_kind", kind)

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the fields in order; no names make the row positional.

        Raises:
            ConfigError: names and values differ in number, or a name repeats.
        """
        if field_names and (
            len(field_names) != len(self._values) or len(set(field_names)) != len(field_names)
        ):
            raise ConfigError(
                f"invalid row field names; got {list(field_names)}; expected {len(self._values)} different ones"
            )
        object.__setattr__(self, "_names", tuple(field_names))

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """The fields by name; positional fields are called f0, f1, ...; `recursive` also turns rows within."""
        names = self._names or tuple(f"f{index}" for index in range(len(self._values)))
        values = [_as_dicts(value) for value in self._values] if recursive else self._values
        return dict(zip(names, values, strict=True))

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """The values of these fields; all of them if the row is positional."""
        return [self[name] for name in names] if self._names else list(self._values)

    def __call__(self, *values: Any) -> Row:
        """A row with this row's values as field names: a positional row of names is a template.

        Raises:
            ConfigError: there are not as many values as names.
        """
        return Row.of(values, self._values, self._kind)

    def __getitem__(self, field: int | slice | str) -> Any:
        return self._values[self._index(field)]

    def __setitem__(self, field: int | slice | str, value: Any) -> None:
        self._values[self._index(field)] = value

    def __getattr__(self, name: str) -> Any:
        if name not in Row.__slots__ and name in self._names:
            return self._values[self._names.index(name)]
        raise AttributeError(f"row has no field {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise AttributeError(f"row has no field {name!r}")
        self._values[self._names.index(name)] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, item: object) -> bool:
        """Whether there is a field of this name, or, where fields have no names, this value."""
        return item in (self._names or self._values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Row:
            return NotImplemented
        return (self._kind, self._names, self._values) == (other._kind, other._names, other._values)

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Row.of, (self._values, self._names, self._kind))

    def __repr__(self) -> str:
        kind = "" if self._kind is RowKind.INSERT else self._kind.short
        if not self._names:
            return f"{kind}<Row({', '.join(map(repr, self._values))})>"
        fields = (f"{name}={value!r}" for name, value in zip(self._names, self._values, strict=True))
        return f"{kind}Row({', '.join(fields)})"

    def _index(self, field: int | slice | str) -> Any:
        if isinstance(field, int | slice):
            return field
        if field not in self._names:
            raise KeyError(f"row has no field {field!r}")
        return self._names.index(field)


_seen: Final[set[RowKind]] = set()
"""Kinds other than INSERT that rows of this process have had: while there are none, values are not searched for them."""


def kind_of(value: Any) -> RowKind:
    """The row kind of a record; INSERT if it is not a row."""
    return value._kind if type(value) is Row else RowKind.INSERT


def kinds_of(values: Sequence[Any]) -> list[RowKind] | None:
    """The column of row kinds for a batch; None if all are insertions.

    Example:
        >>> kinds_of([Row(1), 7]), kinds_of([Row(1), Row.of_kind(RowKind.DELETE, 1)])
        (None, [<RowKind.INSERT: 0>, <RowKind.DELETE: 3>])
    """
    if not _seen:
        return None
    insert = RowKind.INSERT
    return kinds_or_none([value._kind if type(value) is Row else insert for value in values])


def kinds_or_none(kinds: list[RowKind]) -> list[RowKind] | None:
    """The column itself; None if all are insertions."""
    return kinds if any(kinds) else None


def with_kind(value: Any, kind: RowKind, taker: str = "function", remedy: str = "") -> Any:
    """The record as it is passed to functions: a row of this kind.

    Raises:
        RecordError: it is not a row, so its kind would be lost.
    """
    if isinstance(value, Row):
        return value if value._kind is kind else Row.of(value._values, value._names, kind)
    if kind is not RowKind.INSERT:
        remedies = f"{remedy}, or map changes to rows" if remedy else "map changes to rows"
        raise RecordError(
            f"{taker}: the kind of a change would be lost; got {value!r:.80} as {kind.name}; expected inserts, or rows, "
            f"which have their kind; {remedies}"
        )
    return value


def refuse_change(value: Any, kind: RowKind) -> NoReturn:
    """For steps that accept insertions only.

    Raises:
        RecordError: always.
    """
    raise RecordError(
        f"a step that accepts insertions only got {value!r:.80} as {kind.name}; map changes to insertions before it"
    )


def values_with_kinds(
    batch: Batch, sink: str, remedy: str = "use a sink that accepts changes"
) -> Sequence[Any]:
    """For sinks that write only values: rows contain their kind.

    Raises:
        RecordError: a change is not a row, so its kind would be lost.
    """
    if batch.kinds is None:
        return batch.values
    pairs = zip(batch.values, batch.kinds, strict=False)
    return [with_kind(value, kind, sink, remedy) for value, kind in pairs]


def _as_dicts(value: Any) -> Any:
    match value:
        case Row():
            return value.as_dict(recursive=True)
        case list():
            return [_as_dicts(item) for item in value]
        case dict():
            return {key: _as_dicts(item) for key, item in value.items()}
    return value
