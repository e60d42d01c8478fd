"""Reader of the SQL form of logical types.

Example:
    >>> parse_type("map<string not null, decimal(10,2)>")
    MAP<STRING NOT NULL, DECIMAL(10, 2)>
    >>> parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE")
    TIMESTAMP_LTZ(3)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final, NoReturn

from tidegate.errors import ConfigError
from tidegate.logical_types import DataTypes, Field, IntervalUnit, LogicalType

__all__ = ["parse_type"]

_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<word>[^\W\d]\w*) | (?P<number>\d+) | (?P<text>'(?:[^']|'')*') | (?P<name>`(?:[^`]|``)+`)
    | (?P<sign>[<>(),]) )""",
    re.VERBOSE,
)

_PLAIN: Final[dict[str, Callable[[], LogicalType]]] = {
    "STRING": DataTypes.STRING,
    "BOOLEAN": DataTypes.BOOLEAN,
    "BYTES": DataTypes.BYTES,
    "TINYINT": DataTypes.TINYINT,
    "SMALLINT": DataTypes.SMALLINT,
    "INT": DataTypes.INT,
    "INTEGER": DataTypes.INT,
    "BIGINT": DataTypes.BIGINT,
    "FLOAT": DataTypes.FLOAT,
    "DATE": DataTypes.DATE,
    "NULL": DataTypes.NULL,
}
_MEASURED: Final[dict[str, Callable[..., LogicalType]]] = {
    "CHAR": DataTypes.CHAR,
    "CHARACTER": DataTypes.CHAR,
    "VARCHAR": DataTypes.VARCHAR,
    "BINARY": DataTypes.BINARY,
    "VARBINARY": DataTypes.VARBINARY,
    "DECIMAL": DataTypes.DECIMAL,
    "DEC": DataTypes.DECIMAL,
    "NUMERIC": DataTypes.DECIMAL,
    "TIMESTAMP_LTZ": DataTypes.TIMESTAMP_LTZ,
}
"""Types with numbers in parentheses, which have defaults."""
_COLLECTIONS: Final[dict[str, Callable[..., LogicalType]]] = {
    "ARRAY": DataTypes.ARRAY,
    "MULTISET": DataTypes.MULTISET,
    "MAP": DataTypes.MAP,
}
_UNITS: Final[dict[str, Callable[..., tuple[IntervalUnit, int]]]] = {
    "YEAR": DataTypes.YEAR,
    "MONTH": DataTypes.MONTH,
    "DAY": DataTypes.DAY,
    "HOUR": DataTypes.HOUR,
    "MINUTE": DataTypes.MINUTE,
    "SECOND": DataTypes.SECOND,
}
_NAMES: Final = sorted(
    [*_PLAIN, *_MEASURED, "DOUBLE", "TIME", "TIMESTAMP", "INTERVAL", "ARRAY", "MULTISET", "MAP", "ROW", "RAW"]
)


def parse_type(text: str) -> LogicalType:
    """The type that `text` describes; nullable unless it says NOT NULL.

    Raises:
        ConfigError: it is not a type of SQL; the message says where.
    """
    parser = _Parser(text)
    found = parser.type()
    parser.end()
    return found


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def type(self) -> LogicalType:
        """A type with its suffixes: nullability, ARRAY, MULTISET."""
        found = self._nullability(self._base())
        while collection := self._word("ARRAY", "MULTISET"):
            made = DataTypes.ARRAY(found) if collection == "ARRAY" else DataTypes.MULTISET(found)
            found = self._nullability(made)
        return found

    def end(self) -> None:
        """Refuse remaining text."""
        if self._text[self._at :].strip():
            self._refuse("the end of the type")

    def _nullability(self, type: LogicalType) -> LogicalType:
        if self._word("NOT"):
            self._expect("NULL")
            return type.not_null()
        self._word("NULL")
        return type

    def _base(self) -> LogicalType:
        start = self._at
        name = self._take("word")
        match name.upper() if name else None:
            case str(word) if word in _PLAIN:
                return _PLAIN[word]()
            case str(word) if word in _MEASURED:
                if word in ("CHAR", "CHARACTER") and self._word("VARYING"):
                    word = "VARCHAR"
                make = _MEASURED[word]
                return self._made(make, *self._numbers(2 if make is DataTypes.DECIMAL else 1))
            case "DOUBLE":
                self._word("PRECISION")
                return DataTypes.DOUBLE()
            case "TIME" | "TIMESTAMP" as word:
                return self._time(word, start)
            case "INTERVAL":
                return self._interval()
            case "ARRAY" | "MULTISET" | "MAP" as word:
                return self._collection(word)
            case "ROW":
                return self._made(DataTypes.ROW, self._fields())
            case "RAW":
                return self._raw()
        self._at = start
        near = get_close_matches((name or "").upper(), _NAMES, n=1)
        return self._refuse(f"a type; did you mean {near[0]}?" if near else f"one of {', '.join(_NAMES)}")

    def _time(self, word: str, start: int) -> LogicalType:
        numbers = self._numbers(1)
        local = self._zone() if self._text[self._at :].strip() else None
        if word == "TIME" and local is None:
            return self._made(DataTypes.TIME, *numbers)
        if word == "TIME" or local == "with":
            self._at = start
            self._refuse("TIME(p), TIMESTAMP(p) or TIMESTAMP_LTZ(p); a zone for each value is not supported")
        made = DataTypes.TIMESTAMP if local is None else DataTypes.TIMESTAMP_LTZ
        return self._made(made, *numbers)

    def _zone(self) -> str | None:
        """The time zone clause; WITHOUT is the default and returns None."""
        if self._word("WITHOUT"):
            found = None
        elif self._word("WITH"):
            found = "local" if self._word("LOCAL") else "with"
        else:
            return None
        self._expect("TIME")
        self._expect("ZONE")
        return found

    def _interval(self) -> LogicalType:
        first = self._unit()
        return self._made(DataTypes.INTERVAL, first, self._unit() if self._word("TO") else None)

    def _unit(self) -> tuple[IntervalUnit, int]:
        word = self._word(*_UNITS)
        if word is None:
            self._refuse(f"one of {', '.join(_UNITS)}")
        return _UNITS[word](*self._numbers(1 if word in ("YEAR", "DAY", "SECOND") else 0))

    def _collection(self, word: str) -> LogicalType:
        self._expect("<")
        items = [self.type()]
        if word == "MAP":
            self._expect(",")
            items.append(self.type())
        self._expect(">")
        return self._made(_COLLECTIONS[word], *items)

    def _fields(self) -> list[Field]:
        open_sign = self._sign("<", "(") or self._refuse("'<'")
        close, fields = (">" if open_sign == "<" else ")"), list[Field]()
        if self._sign(close):
            return fields
        while True:
            name = self._take("name") or self._take("word") or self._refuse("the name of a field")
            name = name[1:-1].replace("``", "`") if name.startswith("`") else name
            type, description = self.type(), self._take("text")
            fields.append(Field(name, type, _unquoted(description or "''")))
            if not self._sign(","):
                self._expect(close)
                return fields

    def _raw(self) -> LogicalType:
        self._expect("(")
        cls = self._take("text") or self._refuse("the name of a class in single quotes")
        self._expect(",")
        snapshot = self._take("text") or self._refuse("the snapshot of a serializer in single quotes")
        self._expect(")")
        return DataTypes.RAW(_unquoted(cls), _unquoted(snapshot))

    def _numbers(self, most: int) -> list[int]:
        """Up to `most` numbers in parentheses; empty if there are no parentheses."""
        found = list[int]()
        if most and self._sign("("):
            found.append(self._number())
            if most > 1 and self._sign(","):
                found.append(self._number())
            self._expect(")")
        return found

    def _number(self) -> int:
        return int(self._take("number") or self._refuse("a number"))

    def _made(self, make: Callable[..., LogicalType], *parts: object) -> LogicalType:
        """The result of `make`; its errors are reported with the text."""
        try:
            return make(*parts)
        except ConfigError as error:
            raise ConfigError(f"type {self._text!r}: {error}") from error

    def _take(self, kind: str) -> str | None:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found[kind] is None:
            return None
        self._at = found.end()
        return found[kind]

    def _word(self, *words: str) -> str | None:
        start, word = self._at, self._take("word")
        if word is not None and word.upper() in words:
            return word.upper()
        self._at = start
        return None

    def _sign(self, *signs: str) -> str | None:
        start, sign = self._at, self._take("sign")
        if sign in signs:
            return sign
        self._at = start
        return None

    def _expect(self, what: str) -> None:
        if not (self._word(what) or self._sign(what)):
            self._refuse(repr(what))

    def _refuse(self, expected: str) -> NoReturn:
        rest = self._text[self._at :].strip()
        raise ConfigError(
            f"type {self._text!r} cannot be read; got {rest[:30]!r} at position {self._at}; expected {expected}"
            if rest
            else f"type {self._text!r} ends too early; expected {expected}"
        )


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")
