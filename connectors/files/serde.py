"""Line encoders of the file sink: text, JSON and CSV. A record that would be read back differently is refused.

Example:
    >>> JsonLines().encode([{"id": 1}, [2.5, None]])
    b'{"id":1}\\n[2.5,null]\\n'
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from io import StringIO
from math import isfinite
from typing import Any

import msgspec

from tidegate.errors import ConfigError, RecordError

__all__ = ["CsvLines", "JsonLines", "TextLines"]

_INT64 = range(-(2**63), 2**63)
_HALF = ("has half a surrogate pair, which UTF-8 cannot encode", "valid Unicode")


@dataclass(frozen=True)
class TextLines:
    """One text per line, in UTF-8."""

    suffix: str = ".txt"

    def encode(self, values: list[Any]) -> bytes:
        """The lines.

        Raises:
            RecordError: a value is not text, or more than one line of it.
        """
        for value in values:
            if type(value) is not str:
                raise _refusal(value, f"is a {type(value).__name__}", "a string; map it with str")
            if "\n" in value:
                raise _refusal(
                    value, "has a line break and would be read as two records", "one line; use JsonLines"
                )
            if not _encodes(value):
                raise _refusal(value, *_HALF)
        return "".join(f"{value}\n" for value in values).encode()


@dataclass(frozen=True)
class JsonLines:
    """One JSON value per line."""

    suffix: str = ".jsonl"

    def encode(self, values: list[Any]) -> bytes:
        """The lines.

        Raises:
            RecordError: JSON has no such value, or would give back another one.
        """
        for value in values:
            try:
                _check(value, "$", value)
            except RecursionError as error:
                raise RecordError(
                    "a record is nested too deeply for JSON; expected a flat one; map it first"
                ) from error
        return msgspec.json.Encoder().encode_lines(values)


@dataclass(frozen=True)
class CsvLines:
    """One dictionary per line, after a line with the names of the fields.

    Numbers and truth values are written as `str` shows them and None as an empty field, which is what
    `CsvFormat(types=...)` makes them of again; an empty text would come back as None.

    Args:
        names: The fields of each record, in their order.
        delimiter: The separator of fields.
        header: Whether files begin with the names.

    Raises:
        ConfigError: no field is named, or one twice.
    """

    names: tuple[str, ...]
    delimiter: str = ","
    header: bool = True
    suffix: str = ".csv"

    def __post_init__(self) -> None:
        if not self.names or len(set(self.names)) != len(self.names):
            raise ConfigError(f"CSV field names are {self.names}; expected different names, at least one")

    def head(self) -> bytes:
        """The names."""
        return self._lines([self.names]) if self.header else b""

    def encode(self, values: list[Any]) -> bytes:
        """The lines.

        Raises:
            RecordError: a value is not a dictionary of these fields, or a field would not come back the same.
        """
        names, width = self.names, len(self.names)
        rows = []
        for value in values:
            if type(value) is not dict or len(value) != width or any(name not in value for name in names):
                raise _refusal(value, "does not have the fields of the file", f"a dict of {', '.join(names)}")
            row = [value[name] for name in names]
            for field in row:
                _check_field(field, value)
            rows.append(row)
        return self._lines(rows)

    def _lines(self, rows: list[Any]) -> bytes:
        text = StringIO(newline="")
        csv.writer(text, delimiter=self.delimiter, lineterminator="\n").writerows(rows)
        return text.getvalue().encode()


def _check_field(field: Any, record: Any) -> None:
    kind = type(field)
    if kind is str:
        if "\n" in field or "\r" in field:
            raise _refusal(record, "has a line break, which readers reject", "one line; use JsonLines")
        if not _encodes(field):
            raise _refusal(record, *_HALF)
        if not field:
            raise _refusal(
                record, "has an empty string, which would be read as None", "a non-empty string, or None"
            )
    elif kind not in (int, float, bool, type(None)):
        raise _refusal(record, f"has a {kind.__name__}", "str, int, float, bool or None; map it first")


def _check(value: Any, path: str, record: Any) -> None:
    kind = type(value)
    if kind is bool or value is None:
        return
    if kind is str:
        if not _encodes(value):
            raise _refusal(record, *_HALF)
    elif kind is dict:
        for key, inner in value.items():
            if type(key) is not str:
                raise _refusal(
                    record,
                    f"has at {path} the key {key!r}, which JSON turns into a string",
                    "keys of type str",
                )
            _check(key, path, record)
            _check(inner, f"{path}.{key}", record)
    elif kind is list:
        for index, inner in enumerate(value):
            _check(inner, f"{path}[{index}]", record)
    elif kind is int:
        if value not in _INT64:
            raise _refusal(
                record, f"has at {path} an integer of more than 64 bits", "a smaller one, or its str"
            )
    elif kind is not float:
        expected = "dict, list, str, int, float, bool or None; map it first"
        raise _refusal(record, f"has at {path} a {kind.__name__}, which JSON would change", expected)
    elif not isfinite(value):
        raise _refusal(
            record, f"has at {path} {value}, which JSON cannot represent", "a finite number or None"
        )


def _encodes(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refusal(record: Any, what: str, expected: str) -> RecordError:
    shown = repr(record)
    return RecordError(
        f"record {shown if len(shown) <= 80 else shown[:77] + '...'} {what}; expected {expected}"
    )
