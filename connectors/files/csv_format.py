"""CSV format of the file source: lines as dictionaries.

A block of lines goes through pyarrow where that provably makes the same of it as Python's own reader does, field by
field; any other block, such as one with an invalid record, is read by Python's.

Example:
    >>> CsvFormat(types={"id": int}).decoder((b"id,name",))([b'1,"Ann, Bo"'])
    [{'id': 1, 'name': 'Ann, Bo'}]
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from typing import IO, TYPE_CHECKING, Any

from tidegate.connectors.files.lines import Decode, LineFormat
from tidegate.connectors.files.reading import check_columns
from tidegate.dictionaries import dictionaries
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.connectors.files._arrow import CsvBlocks

__all__ = ["CsvFormat"]

_FEW = 100
"""So many lines are done before pyarrow has begun."""


@dataclass(frozen=True)
class CsvFormat(LineFormat):
    """Lines of fields as dictionaries; blank lines are left out.

    Args:
        names: What the fields are called; None takes each file's first line.
        types: What makes values of fields, by name: `int`, `float`, `bool` or a function of a text. An empty field is
            then None. The others stay text.
        columns: The fields that are wanted; all if None.
        delimiter: The separator of fields.
        quote: The quote character of a field that contains a separator; a line break within is refused.
        charset: How text is encoded.
    """

    names: tuple[str, ...] | None = None
    types: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    delimiter: str = ","
    quote: str = '"'
    charset: str = "UTF-8"

    name = "CSV"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_columns("CSV", self.columns)
        for kind, text in (("delimiter", self.delimiter), ("quote", self.quote)):
            if len(text) != 1 or text in "\r\n":
                raise ConfigError(f"CSV {kind} is {text!r}; expected one character")
        if self.names is not None:
            self._check_names(self.names, "names")

    def head_of(self, file: IO[bytes]) -> tuple[bytes, ...]:
        """The names of the fields, unless they are given."""
        return () if self.names is not None else (file.readline(),)

    def decoder(self, head: tuple[bytes, ...]) -> Decode:
        """Cuts them into fields, and makes values of these column by column."""
        names = self.names
        if names is None:
            names = tuple(next(self.fields(list(head)), ()))
            self._check_names(names, "the first line")
        return Fields(self, names)

    def fields(self, lines: list[bytes]) -> Iterator[list[str]]:
        """The texts between delimiters, of each line."""
        text = b"".join(lines).decode(self.charset)
        # Lines end where the file's do: `splitlines` would cut at characters that a field may hold.
        cut = StringIO(text, newline="\n")
        return csv.reader(cut, delimiter=self.delimiter, quotechar=self.quote, strict=True)

    def _check_names(self, names: tuple[str, ...], where: str) -> None:
        if not names or len(set(names)) != len(names):
            raise ConfigError(f"CSV field names are {names} in {where}; expected different names")
        for name in (*self.types, *(self.columns or ())):
            if name not in names:
                raise ConfigError(f"CSV has no field {name!r}; {where} has {', '.join(names)}")


class Fields:
    """What makes dictionaries of lines.

    Args:
        how: What lines look like and what is wanted of them.
        names: What all fields are called.
    """

    def __init__(self, how: CsvFormat, names: tuple[str, ...]) -> None:
        self._how = how
        self._names = names
        self._wanted = {
            name: how.types.get(name) for name in names if how.columns is None or name in how.columns
        }
        self._records = dictionaries(tuple(self._wanted))
        self._quotes_are_plain = _quoting(how.delimiter, how.quote)

    def __call__(self, lines: list[bytes]) -> list[Any]:
        """The records of lines.

        Raises:
            ValueError: a line is none.
            csv.Error: likewise.
        """
        columns = self.quickly(lines) if len(lines) > _FEW else None
        return self._records(self.exactly(lines) if columns is None else columns)

    def exactly(self, lines: list[bytes]) -> list[Sequence[Any]]:
        """The columns that are wanted, by Python's reader."""
        rows, width = list(self._how.fields(lines)), len(self._names)
        for found in set(map(len, rows)) - {width}:
            raise ValueError(f"it has {found} fields; expected {width}")
        if len(rows) != len(lines):
            raise ValueError("a quoted line break")
        columns = dict(zip(self._names, list(zip(*rows, strict=True)) or [()] * width, strict=True))
        return [_made(columns[name], _CONVERT.get(make, make)) for name, make in self._wanted.items()]

    def quickly(self, lines: list[bytes]) -> list[Sequence[Any]] | None:
        """The same columns by pyarrow; None if it might make something else of these lines."""
        text = b"".join(lines).decode(self._how.charset).encode()
        columns = self._blocks.columns(text) if self._is_plain(text) else None
        # A carriage return within a line, which Python refuses, makes a row more.
        if columns is None or len(columns[0]) != len(lines):
            return None
        return [
            column if make in _TYPES else _made(column, make)
            for column, make in zip(columns, self._wanted.values(), strict=True)
        ]

    def _is_plain(self, text: bytes) -> bool:
        """Whether there is nothing in it that pyarrow takes otherwise."""
        return (
            len(text) <= csv.field_size_limit()
            and not text.startswith(codecs.BOM_UTF8)
            and not any(part in text and whole in text for part, whole in _NUMBERS)
            and self._quotes_are_plain(text)
        )

    @cached_property
    def _blocks(self) -> CsvBlocks:
        from tidegate.connectors.files import _arrow

        types = {name: _TYPES.get(make, "string") for name, make in self._wanted.items()}
        return _arrow.CsvBlocks(self._names, types, self._how.delimiter, self._how.quote)


def _quoting(delimiter: str, quote: str) -> Callable[[bytes], bool]:
    """Whether each quote in a text begins a field, ends it, or is doubled, and nothing quoted holds a line break."""
    if not (delimiter.isascii() and quote.isascii()) or delimiter == quote:
        return lambda text: False
    mark, cut, one = quote.encode(), re.escape(delimiter), re.escape(quote)
    inner = rf"[^{one}\n]*+(?:{one}{one}[^{one}\n]*+)*+"
    field = rf"(?<![^{cut}\n]){one}{inner}{one}(?![^{cut}\r\n])"
    fits = re.compile(rf"(?:[^{one}]*+{field})*+[^{one}]*+".encode()).fullmatch
    return lambda text: mark not in text or fits(text) is not None


def _made(column: Sequence[str], make: Callable[[str], Any] | None) -> Sequence[Any]:
    if make is None:
        return column
    return [make(text) if text else None for text in column] if "" in column else list(map(make, column))


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


_CONVERT: dict[Any, Callable[[str], Any]] = {bool: _boolean}
_TYPES: dict[Any, str] = {int: "int64", float: "float64", bool: "bool"}
_NUMBERS = ((b"x", b"0x"), (b"X", b"0X"), (b"(", b"n("), (b"(", b"N("))
"""What pyarrow takes for numbers: integers to the base of 16, and `nan(...)`; with what is looked for more quickly."""
