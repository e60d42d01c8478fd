"""Row decoders: functions generated for each version of a table, which convert its rows to tuples.

One reads the rows of pgoutput messages, the other lines of COPY's text form. A column costs a few operations in the generated
code. The source is kept, so tracebacks show it.

Example:
    >>> decode = row_decoder("public.users", [ColumnDecoder("id", "int(raw)"), ColumnDecoder("name", "raw.decode()")])
    >>> decode(b"I\\0\\0\\0\\7N" b"\\0\\2t\\0\\0\\0\\00242t\\0\\0\\0\\3ada", 6)
    ((42, 'ada'), 23)
"""

from __future__ import annotations

import linecache
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from tidegate.errors import RecordError
from tidegate.unchanged import UNCHANGED

__all__ = ["ColumnDecoder", "CopyLines", "RowDecoder", "copy_decoder", "row_decoder", "unescaped"]

RowDecoder: TypeAlias = Callable[[bytes, int], tuple[tuple[Any, ...], int]]
"""Decodes a row of a message from the offset of its number of columns; returns the row and the offset after it.

Raises:
    RecordError: the row has other columns, or a value cannot be parsed.
"""

_NULL, _UNCHANGED, _TEXT = b"nut"
_LENGTH: Final = struct.Struct("!i").unpack_from


class ColumnDecoder(NamedTuple):
    """How the text of a column is parsed: `source` is an expression over `raw`, its bytes, and may call `convert`."""

    name: str
    source: str
    convert: Callable[[Any], Any] | None = None


CopyLines: TypeAlias = Callable[[Sequence[bytes]], list[tuple[Any, ...]]]
"""Decodes lines of COPY's text form; raises as a `RowDecoder` does."""


def row_decoder(table: str, columns: Sequence[ColumnDecoder]) -> RowDecoder:
    """The decoder of the rows in messages of the log."""
    lines = [
        "def decode(data, at):",
        "    try:",
        "        if data[at : at + 2] != count: raise ValueError('other columns')",
        "        at += 2",
    ]
    owners: dict[int, str] = {}
    for number, column in enumerate(columns):
        lines += [
            f"        if data[at] == {_TEXT}:",
            "            end = at + 5 + length(data, at + 1)[0]",
            f"            v{number} = {_expression(number, column, 'data[at + 5 : end]')}",
            "            at = end",
            "        else:",
            f"            v{number} = special(data[at])",
            "            at += 1",
        ]
        owners |= dict.fromkeys(range(len(lines) - 6, len(lines) + 1), column.name)
    lines += [
        "        if at > len(data): raise ValueError('bytes are missing')",
        f"        return ({_tuple(columns)}), at",
        "    except Exception as error:",
        "        raise failure(error, data) from error",
    ]
    names = {"length": _LENGTH, "count": struct.pack("!h", len(columns)), "special": _special}
    decode: RowDecoder = _compiled(table, columns, lines, owners, names)
    return decode


def copy_decoder(table: str, columns: Sequence[ColumnDecoder]) -> CopyLines:
    """The decoder of lines of COPY's text form."""
    lines = [
        "def decode(lines):",
        "    rows = []",
        "    line = b''",
        "    try:",
        "        for line in lines:",
        "            fields = line.split(b'\\t')",
        "            if b'\\\\' in line: fields = [unescaped(field) for field in fields]",
        f"            {_tuple(columns)} = fields",
        "            rows.append((",
    ]
    owners: dict[int, str] = {}
    for number, column in enumerate(columns):
        value = _expression(number, column, f"v{number}")
        lines.append(f"                None if v{number} is None or v{number} == NULL else {value},")
        owners[len(lines)] = column.name
    lines += [
        "            ))",
        "        return rows",
        "    except Exception as error:",
        "        raise failure(error, line) from error",
    ]
    decode: CopyLines = _compiled(table, columns, lines, owners, {"unescaped": unescaped, "NULL": _COPY_NULL})
    return decode


def unescaped(field: bytes) -> bytes:
    """A field of a line of COPY, unescaped; the text of NULL is unchanged.

    Example:
        >>> unescaped(b"tab\\\\tand\\\\\\\\slash"), unescaped(b"\\\\N")
        (b'tab\\tand\\\\slash', b'\\\\N')
    """
    if field == _COPY_NULL or b"\\" not in field:
        return field
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), field)


_COPY_NULL: Final = b"\\N"
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def _expression(number: int, column: ColumnDecoder, raw: str) -> str:
    return column.source.replace("convert", f"convert{number}").replace("raw", raw)


def _tuple(columns: Sequence[ColumnDecoder]) -> str:
    return "".join(f"v{number}, " for number in range(len(columns)))


def _compiled(
    table: str,
    columns: Sequence[ColumnDecoder],
    lines: Sequence[str],
    owners: Mapping[int, str],
    names: Mapping[str, Any],
) -> Any:
    """Compile the function `decode` of these lines; `owners` are the columns of lines."""

    def failure(error: Exception, data: bytes) -> RecordError:
        trace = error.__traceback__
        column = owners.get(trace.tb_lineno) if trace else None
        where = f"table {table}" + (f", column {column!r}" if column else "")
        return RecordError(f"{where}: a row cannot be read ({error}); got {data[:80]!r}")

    source = "\n".join(lines) + "\n"
    filename = f"<rows of {table}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    converts = {f"convert{number}": column.convert for number, column in enumerate(columns)}
    space = {**names, **converts, "failure": failure}
    exec(compile(source, filename, "exec"), space)
    return space["decode"]


def _special(tag: int) -> Any:
    """The value of a column that has no text: NULL or unchanged."""
    if tag == _NULL:
        return None
    if tag == _UNCHANGED:
        return UNCHANGED
    raise ValueError(f"column format {chr(tag)!r} is unknown; expected n, u or t")
