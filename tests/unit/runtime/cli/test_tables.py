"""Rows for people in a terminal, for files and pipes, and for programs."""

from __future__ import annotations

import io
import json
import re

import pytest

from tidegate.runtime.cli.tables import Table, Text, show_json, show_table

WHO = Table(("who", "cents"), [(Text("ann"), 520), (Text("bob"), None), (Text("x" * 100), "text")])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_rows_are_aligned_lines() -> None:
    out = io.StringIO()
    show_table(WHO, out)

    lines = out.getvalue().splitlines()
    assert lines[:3] == ["who" + " " * 99 + "cents", "ann" + " " * 99 + "520", "bob"]


def test_a_terminal_shows_a_table_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    show_table(WHO, out)

    assert "\x1b[1m" in out.getvalue()
    assert max(map(len, re.sub(r"\x1b\[\d+m", "", out.getvalue()).splitlines())) == 40
    assert "520" in out.getvalue()


def test_programs_get_what_json_knows_and_text_for_the_rest() -> None:
    out = io.StringIO()
    show_json([{"who": Text("ann"), "at": (1, None), "what": {1, 2}, "bytes": b"x", 7: "x"}], out)

    (row,) = json.loads(out.getvalue())
    assert row == "{'who': 'ann', 'at': (1, None), 'what': {1, 2}, 'bytes': b'x', 7: 'x'}"


def test_nested_values_keep_their_shape() -> None:
    out = io.StringIO()
    show_json({"at": (1, None), "what": {1}, "deep": {"bytes": [b"x", 1.5, True]}}, out)

    assert json.loads(out.getvalue()) == {
        "at": [1, None],
        "what": "{1}",
        "deep": {"bytes": ["b'x'", 1.5, True]},
    }
