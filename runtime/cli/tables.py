"""Output of rows: as tables in a terminal, as aligned lines in a file or pipe, or as JSON.

Example:
    >>> import io
    >>> out = io.StringIO()
    >>> show_table(Table(("who", "cents"), [("ann", 520), ("bob", None)]), out)
    >>> print(out.getvalue(), end="")
    who    cents
    'ann'  520
    'bob'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TextIO

import msgspec

__all__ = ["Table", "Text", "json_line", "shortened", "show_json", "show_table"]


class Text(str):
    """Words that are shown as they are; other values are shown as Python writes them."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under names of columns; what is None stays empty."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


def show_table(table: Table, out: TextIO) -> None:
    """Print rows for people."""
    cells = [tuple(map(_cell, row)) for row in table.rows]
    if out.isatty() and find_spec("rich") is not None:
        _show_rich(table.columns, cells, out)
        return
    widths = [max(map(len, column)) for column in zip(table.columns, *cells, strict=True)]
    for row in (table.columns, *cells):
        print("  ".join(map(str.ljust, row, widths)).rstrip(), file=out)


def show_json(value: Any, out: TextIO) -> None:
    """Print a document for programs; what JSON does not know is shown as Python writes it."""
    print(msgspec.json.format(msgspec.json.encode(_plain(value)), indent=2).decode(), file=out)


def json_line(value: Any) -> bytes:
    """A document as one line."""
    return msgspec.json.encode(_plain(value)) + b"\n"


def shortened(text: str, width: int) -> str:
    """A text shortened to the width of a column; the middle is left out, because names differ at their ends.

    Example:
        >>> shortened("home-ann-jobs-totals.py-1f2e3d4c", 20)
        'home-ann-j…-1f2e3d4c'
    """
    half = width // 2
    return text if len(text) <= width else f"{text[: width - half]}…{text[1 - half :]}"


def _show_rich(columns: Sequence[str], cells: Sequence[tuple[str, ...]], out: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

    shown = RichTable(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in cells:
        shown.add_row(*map(RichText, row))
    Console(file=out).print(shown)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, Text) else repr(value)


def _plain(value: Any) -> Any:
    match value:
        case str():
            return str(value)
        case int() | float() | None:
            return value
        case dict() if all(type(name) is str for name in value):
            return {name: _plain(part) for name, part in value.items()}
        case list() | tuple() if type(value) in (list, tuple):
            return list(map(_plain, value))
    return repr(value)
