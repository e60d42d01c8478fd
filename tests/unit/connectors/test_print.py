"""Printed lines look like PyFlink's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.connectors.print import PrintSink
from tidegate.connectors.spi import SupportsCommit
from tidegate.elements import Batch, RowKind
from tidegate.row import Row
from tidegate.twophase.spi import WriterContext

CHANGES = list(RowKind)
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
    deleted = Row.of([7, "ada"], ["id", "name"], RowKind.DELETE)
    writer.write(
        Batch([(1, "a"), "b", deleted], kinds=[RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.DELETE])
    )
    writer.write(
        Batch(
            [deleted, Row(id=7), Row.of_kind(RowKind.UPDATE_AFTER, 1, ">")],
            kinds=[CHANGES[3], *CHANGES[:3:2]],
        )
    )

    assert capsys.readouterr().out.splitlines() == [
        "(1, 'a')",
        "-U(b)",
        "-D(id=7, name='ada')",
        "-D(id=7, name='ada')",
        "Row(id=7)",
        "+U(1, '>')",
    ]


def test_printing_promises_at_least_once_and_commits_nothing() -> None:
    assert PrintSink().delivery == "at-least-once"
    assert not isinstance(PrintSink(), SupportsCommit)


@pytest.mark.parametrize(
    ("value", "kind", "line"),
    [
        ((1, "a"), None, "+I(1,a)\n"),
        (Row(1, "a"), None, "+I(1,a)\n"),
        (Row.of_kind(RowKind.DELETE, 1, "a"), RowKind.DELETE, "-D(1,a)\n"),
        ((1, "a"), RowKind.UPDATE_BEFORE, "-U(1,a)\n"),
        (7, RowKind.UPDATE_AFTER, "+U(7)\n"),
    ],
    ids=["tuple", "row", "deleted row", "old", "single value"],
)
def test_every_record_is_shown_as_a_change_if_asked_for(
    value: Any, kind: RowKind | None, line: str, writer_context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = PrintSink(changes=True, stderr=True).open_writer(writer_context())
    writer.write(Batch([value], kinds=None if kind is None else [kind]))

    printed = capsys.readouterr()
    assert (printed.err, printed.out) == (line, "")
