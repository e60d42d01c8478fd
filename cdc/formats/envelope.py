"""Base class of the JSON formats of changes: reads and writes the rows inside their envelopes."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import msgspec

from tidegate.connectors.formats.changes import ChangeFormat
from tidegate.connectors.formats.typed import annotation, field_names, row_type, row_values, to_rows
from tidegate.elements import RowKind
from tidegate.errors import RecordError
from tidegate.row import Row
from tidegate.types import TypeInformation

__all__ = ["ADDED", "JsonChangeFormat"]

ADDED: Final = (RowKind.INSERT, RowKind.UPDATE_AFTER)
"""The kinds after which the row is in the table."""

_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
"""Parses numbers without loss of digits until the type of their column is known."""


@dataclass(frozen=True)
class JsonChangeFormat(ChangeFormat):
    """Changes as JSON objects.

    Args:
        row: The type of the rows; its names are the properties that are read and written.

    Raises:
        ConfigError: it is not a row, or JSON cannot represent it.
    """

    row: TypeInformation

    name = "json"

    def __post_init__(self) -> None:
        annotation(row_type(type(self).__name__, self.row))

    @property
    def produced_type(self) -> TypeInformation:
        """The rows."""
        return self.row

    def decode(self, message: bytes | None) -> Sequence[tuple[RowKind, Any]]:
        """The changes of a message; none of a tombstone."""
        if message is None:
            return ()
        try:
            return list(self._changes(_decode(message)))
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
            raise RecordError(
                f"message {message!r:.80} is not valid {self.name} for {self.row}: {type(error).__name__}: {error}"
            ) from error

    def encode(self, kind: RowKind, row: Any) -> bytes:
        """The envelope of a change."""
        names = field_names(self.row)
        fields = Row.of(row_values(self.name, row, names), names).as_dict(recursive=True)
        try:
            return _encode(self._envelope(kind, fields))
        except TypeError as error:
            raise RecordError(
                f"record {row!r:.80} cannot be written as {self.name} ({error}); map it first"
            ) from error

    @abstractmethod
    def _changes(self, envelope: Any) -> Iterator[tuple[RowKind, Any]]:
        """The changes of a decoded message."""

    @abstractmethod
    def _envelope(self, kind: RowKind, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The envelope of a change."""

    def _row(self, fields: Mapping[str, Any]) -> Any:
        """The row of a decoded object."""
        kind, make = self._reading
        return make(msgspec.convert(fields, kind, strict=False))

    @functools.cached_property
    def _reading(self) -> tuple[Any, Any]:
        return annotation(self.row), to_rows(self.row)

    def __reduce__(self) -> tuple[Any, ...]:
        # Generated classes cannot be pickled.
        return (_rebuilt, (type(self), {name: getattr(self, name) for name in self.__dataclass_fields__}))


def _rebuilt(cls: type[JsonChangeFormat], fields: Mapping[str, Any]) -> JsonChangeFormat:
    return cls(**fields)
