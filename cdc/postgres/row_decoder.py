"""Row decoder of pgoutput: a function is generated for each version of a table, which makes tuples of its rows.

A column costs a few operations in the generated code. The source is kept, so tracebacks show it.

Example:
    >>> decode = row_decoder("public.users", [ColumnDecoder("id", "int(raw)"), ColumnDecoder("name", "raw.decode()")])
    >>> decode(b"I\\0\\0\\0\\7N" b"\\0\\2t\\0\\0\\0\\00242t\\0\\0\\0\\3ada", 6)
    ((42, 'ada'), 23)
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from tidegate.errors import RecordError
from tidegate.unchanged import UNCHANGED

__all__ = ["ColumnDecoder", "RowDecoder", "row_decoder"]

RowDecoder: TypeAlias = Callable[[bytes, int], tuple[tuple[Any, ...], int]]
"""Makes a row of a message from an offset on, where its number of columns stands, and tells the offset behind it.

Raises:
    RecordError: the row has other columns, or a value that is not of its type.
"""

_NULL, _UNCHANGED, _TEXT = b"nut"
_LENGTH: Final = struct.Struct("!i").unpack_from


class ColumnDecoder(NamedTuple):
    """How the text of a column becomes a value: `source` is an expression over `raw`, its bytes, and may call `convert`."""

    name: str
    source: str
    convert: Callable[[Any], Any] | None = None


def row_decoder(table: str, columns: Sequence[ColumnDecoder]) -> RowDecoder:
    """The decoder of the rows of one version of a table."""
    names: dict[str, Any] = {"UNCHANGED": UNCHANGED, "length": _LENGTH, "count": struct.pack("!h", len(columns))}
    lines = [
        "def decode(data, at):",
        "    try:",
        "        if data[at : at + 2] != count: raise ValueError('other columns')",
        "        at += 2",
    ]
    owners: dict[int, str] = {}
    for number, column in enumerate(columns):
        names[f"convert{number}"] = column.convert
        source = column.source.replace("convert", f"convert{number}").replace("raw", "data[at + 5 : end]")
        lines += [
            f"        if data[at] == {_TEXT}:",
            "            end = at + 5 + length(data, at + 1)[0]",
            f"            v{number} = {source}",
            "            at = end",
            "        else:",
            f"            v{number} = special(data[at])",
            "            at += 1",
        ]
        owners |= dict.fromkeys(range(len(lines) - 6, len(lines) + 1), column.name)
    values = "".join(f"v{number}, " for number in range(len(columns)))
    lines += [
        f"        return ({values}), at",
        "    except Exception as error:",
        "        raise failure(error, data) from error",
    ]

    def failure(error: Exception, data: bytes) -> RecordError:
        trace = error.__traceback__
        column = owners.get(trace.tb_lineno) if trace else None
        where = f"table {table}" + (f", column {column!r}" if column else "")
        return RecordError(f"{where}: a row of the log cannot be read ({error}); got {data[:80]!r}")

    source = "\n".join(lines) + "\n"
    filename = f"<rows of {table}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    names |= {"failure": failure, "special": _special}
    exec(compile(source, filename, "exec"), names)
    decode: RowDecoder = names["decode"]
    return decode


def _special(tag: int) -> Any:
    """The value of a column without text."""
    if tag == _NULL:
        return None
    if tag == _UNCHANGED:
        return UNCHANGED
    raise ValueError(f"column format {chr(tag)!r} is unknown; expected n, u or t")
