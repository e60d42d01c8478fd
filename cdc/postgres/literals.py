"""Text forms of Postgres: names and literals are written, arrays and composite values are read.

Example:
    >>> parse_array('{{1,2},{NULL,4}}', int)
    [[1, 2], [None, 4]]
    >>> print(identifier('odd"name'), literal("it's"))
    "odd""name" 'it''s'
    >>> parse_composite('(7,"a, \"\"b\"\"",)', [int, str, str])
    (7, 'a, "b"', None)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

__all__ = ["identifier", "literal", "parse_array", "parse_composite"]

Parse = Callable[[str], Any]

_BOUNDS: Final = re.compile(r"(\[[-+]?\d+:[-+]?\d+\])+=")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_TOKENS: Final = {
    delimiter: re.compile(
        rf'([{{}}{delimiter}])|"((?:[^"\\]|\\.)*)"|((?:[^{{}}"\\{delimiter}]|\\.)+)', re.DOTALL
    )
    for delimiter in ",;"
}
_FIELD: Final = re.compile(r'((?:[^",()\\]|""|\\.|"(?:[^"\\]|""|\\.)*")*)([,)])', re.DOTALL)
_QUOTED: Final = re.compile(r'"((?:[^"\\]|""|\\.)*)"|\\(.)', re.DOTALL)


def identifier(*parts: str) -> str:
    """A name of one part or several, quoted."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def literal(text: str) -> str:
    """A text as a literal; sessions have `standard_conforming_strings`."""
    return "'" + text.replace("'", "''") + "'"


def parse_array(text: str, parse: Parse, delimiter: str = ",") -> list[Any]:
    """The elements; lists of lists where it has more dimensions. A prefix with bounds is dropped.

    Raises:
        ValueError: the text is not an array.
    """
    bounds = _BOUNDS.match(text)
    outer: list[Any] = []
    open_lists = [outer]
    at = bounds.end() if bounds else 0
    while at < len(text):
        token = _TOKENS[delimiter].match(text, at)
        if token is None or not open_lists:
            raise ValueError(f"{text[:40]!r} is not an array")
        at = token.end()
        sign, quoted, plain = token.groups()
        if sign == "{":
            inner: list[Any] = []
            open_lists[-1].append(inner)
            open_lists.append(inner)
        elif sign == "}":
            open_lists.pop()
        elif quoted is not None:
            open_lists[-1].append(parse(_ESCAPED.sub(r"\1", quoted)))
        elif plain is not None:
            open_lists[-1].append(None if plain.upper() == "NULL" else parse(_ESCAPED.sub(r"\1", plain)))
    if len(open_lists) != 1 or len(outer) != 1:
        raise ValueError(f"{text[:40]!r} is not an array")
    whole: list[Any] = outer[0]
    return whole


def parse_composite(text: str, parsers: Sequence[Parse]) -> tuple[Any, ...]:
    """The fields; one without any character is None.

    Raises:
        ValueError: the text is not a composite value with as many fields.
    """
    texts: list[str] = []
    at, ended = 1, not text.startswith("(")
    while not ended:
        found = _FIELD.match(text, at)
        if found is None:
            raise ValueError(f"{text[:40]!r} is not a composite value")
        texts.append(found[1])
        at, ended = found.end(), found[2] == ")"
    if at != len(text) or len(texts) != len(parsers):
        raise ValueError(f"{text[:40]!r} is not a composite value of {len(parsers)} fields")
    return tuple(
        [
            None if not each else parse(_QUOTED.sub(_unquote, each))
            for each, parse in zip(texts, parsers, strict=True)
        ]
    )


def _unquote(found: re.Match[str]) -> str:
    quoted, escaped = found.groups()
    if escaped is not None:
        return str(escaped)
    return re.sub(r'""|\\(.)', lambda each: each[1] or '"', quoted, flags=re.DOTALL)
