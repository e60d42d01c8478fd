"""Programs for PyFlink print here what they printed under PyFlink, or differ as docs/migration.md says.

How programs and outputs are made is in README.md. A program that is listed in `DIFFERENT` has a second file, what it
prints here, so that a difference that changes, or is gone, is seen as well.
"""

from __future__ import annotations

import runpy
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden.pyflink import generate
from tidegate.errors import TidegateError
from tidegate.runtime.alias import aliased, table

PROGRAMS = sorted(generate.PROGRAMS.glob("*.py"))

DIFFERENT = {
    "DataStream.get_side_output": ["sides_04", "sides_05", "sides_08"],
    "DataStream.print": ["sequence_05"],
    "KeyedProcessFunction": ["context_02", "context_06"],
    "KeyedStream.count_window": ["counts_03", "counts_06"],
    "Instant": ["values_03"],
    "Row": ["row_01", "row_04", "row_05", "untyped_01"],
    "TimerService.register_event_time_timer": ["timers_03", "timers_08", "triggers_02"],
    "Types.ROW_NAMED": ["values_14"],
}
"""Programs by the row of docs/migration.md that says what is different."""

REFUSED = {"values_03": "got Instant Instant"}
"""What is said of a program that does not run here; those, too, are listed under a row."""


def runs() -> Iterator[tuple[str, Path, list[pytest.MarkDecorator]]]:
    """Every program inline, and on worker processes; of the latter, which take half a second each, a short run has some."""
    for number, program in enumerate(PROGRAMS):
        yield "inline", program, []
        yield "embedded", program, [] if number % 3 == 0 else [pytest.mark.long]


def in_order(printed: str) -> Any:
    return printed.splitlines()


def in_any_order(printed: str) -> Any:
    return sorted(printed.splitlines())


def by_key(printed: str) -> Any:
    """The lines of each key, which is what a line has before its first comma."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in printed.splitlines():
        found[line.partition(",")[0]].append(line)
    return found


COMPARED: dict[str, Callable[[str], Any]] = {
    "in order": in_order,
    "in any order": in_any_order,
    "by key": by_key,
}


def comparison(program: Path) -> Callable[[str], Any]:
    """How the program's own text says that its output is compared."""
    _, _, said = program.read_text(encoding="utf-8").partition("\n\nCompared ")
    return COMPARED[said.partition(".\n")[0]]


def expected(program: Path) -> str:
    different = any(program.stem in names for names in DIFFERENT.values())
    return program.with_suffix(".ours.out" if different else ".out").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("executor", "program"),
    [
        pytest.param(executor, program, id=f"{executor}-{program.stem}", marks=marks)
        for executor, program, marks in runs()
    ],
)
def test_a_program_prints_what_it_prints_under_pyflink(
    executor: str,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TIDEGATE_EXECUTION_TARGET", executor)
    monkeypatch.setenv("TIDEGATE_PIPELINE_PROGRESS", "off")
    monkeypatch.setenv("TIDEGATE_RESTART_STRATEGY_TYPE", "none")

    with aliased():
        if program.stem in REFUSED:
            with pytest.raises(TidegateError, match=REFUSED[program.stem]):
                runpy.run_path(str(program), run_name="__main__")
            return
        runpy.run_path(str(program), run_name="__main__")

    compared = comparison(program)
    assert compared(capfd.readouterr().out) == compared(expected(program))


def test_every_program_is_generated_and_recorded() -> None:
    made = {name: text for template in generate.templates() for name, text in generate.programs(template)}

    assert {program.stem for program in PROGRAMS} == made.keys()
    assert [program.stem for program in PROGRAMS if not program.with_suffix(".out").is_file()] == []


@pytest.mark.parametrize("row", sorted(DIFFERENT))
def test_a_difference_has_its_reason_in_the_migration_page(row: str) -> None:
    assert row in table()["different"]
    printing = [name for name in DIFFERENT[row] if name not in REFUSED]
    for program in (generate.PROGRAMS / f"{name}.py" for name in printing):
        compared = comparison(program)
        theirs = program.with_suffix(".out").read_text(encoding="utf-8")
        assert compared(theirs) != compared(expected(program)), f"{program.stem} is not different any more"
