"""Printed lines look like PyFlink's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.connectors.print import PrintSink
from tidegate.connectors.spi import SupportsCommit
from tidegate.elements import Batch, RowKind
from tidegate.twophase.spi import WriterContext

Context = Callable[..., WriterContext]


@pytest.mark.parametrize(
    ("prefix", "subtask", "parallelism", "line"),
    [
        ("", 0, 1, "(1, 'a')\n"),
        ("", 1, 2, "2> (1, 'a')\n"),
        ("out", 0, 1, "out> (1, 'a')\n"),
        ("out", 1, 2, "out:2> (1, 'a')\n"),
    ],
    ids=["alone", "several", "prefix", "prefix and several"],
)
def test_lines_say_who_printed_them(
    prefix: str,
    subtask: int,
    parallelism: int,
    line: str,
    writer_context: Context,
    capsys: pytest.CaptureFixture[str],
) -> None:
    writer = PrintSink(prefix).open_writer(writer_context(subtask, parallelism=parallelism))
    writer.write(Batch([(1, "a")]))

    assert capsys.readouterr().out == line


def test_changes_show_their_kind(writer_context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    writer = PrintSink().open_writer(writer_context())
    writer.write(Batch([(1, "a"), "b"], kinds=[RowKind.INSERT, RowKind.UPDATE_BEFORE]))

    assert capsys.readouterr().out == "+I(1, 'a')\n-U(b)\n"


def test_printing_promises_at_least_once_and_commits_nothing() -> None:
    assert PrintSink().delivery == "at-least-once"
    assert not isinstance(PrintSink(), SupportsCommit)
