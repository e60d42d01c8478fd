"""Programs as people start them: by python, by `tidegate run`, in a notebook; and what they are told when they fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.integration.runtime.conftest import PROGRAMS

TIDEGATE = Path(sys.executable).parent / "tidegate"


def run(
    directory: Path, *command: str | Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a directory of its own, with checkpoints there."""
    home = {"XDG_STATE_HOME": str(directory), **(environ or {})}
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=directory,
        env={**os.environ, **home},
    )


def test_a_script_without_a_main_guard_runs_in_two_processes(tmp_path: Path) -> None:
    ran = run(
        tmp_path, sys.executable, PROGRAMS / "unguarded.py", environ={"TIDEGATE_PARALLELISM_DEFAULT": "2"}
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["[0, 1, 4, 9, 16, 25]", "2 False"]


CELL = """
from tidegate.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment({"pipeline.progress": "off"})
env.set_parallelism(2)

def shout(word):
    print("worker says", word)
    return word.upper()

words = env.from_collection(["to", "be", "or", "not", "to", "be"])
counted = words.map(shout).key_by(lambda word: word)
sorted(counted.execute_and_collect())
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_notebook_cell_runs_at_parallelism_two_and_shows_what_workers_print(tmp_path: Path) -> None:
    cells: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": f"cell-{n}",
            "metadata": {},
            "source": source,
            "outputs": [],
            "execution_count": None,
        }
        for n, source in enumerate((CELL, "sorted(words.map(len).execute_and_collect())"))
    ]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    notebook: Any = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call] # not annotated

    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()

    outputs = [output for cell in notebook.cells for output in cell.outputs]
    values = [output.data["text/plain"] for output in outputs if output.output_type == "execute_result"]
    assert values == ["['BE', 'BE', 'NOT', 'OR', 'TO', 'TO']", "[2, 2, 2, 2, 2, 3]"]
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert printed.count("worker says") == 6


def test_python_and_tidegate_run_read_the_same_settings(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text("[parallelism]\ndefault = 3\n")
    program = PROGRAMS / "told.py"
    environ = {"TIDEGATE_EXECUTION_TARGET": "inline"}

    by_python = run(tmp_path, sys.executable, program, "a", "b", environ=environ)
    by_command = run(tmp_path, TIDEGATE, "run", program, "a", "b", environ=environ)

    assert by_python.stdout == "[(3, 'told')] ['a', 'b']\n"
    assert (by_command.stdout, by_command.returncode) == (by_python.stdout, 0)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-D", "parallelism.default=2", "FILE"], "[(2, 'told')] []"),
        (["FILE", "-D", "parallelism.default=2"], "[(2, 'told')] []"),
        (["FILE", "-Dparallelism.default=2", "--fresh", "input"], "[(2, 'told')] ['input']"),
        (["-D", "parallelism.default=2", "FILE", "input", "-D", "x"], "[(2, 'told')] ['input', '-D', 'x']"),
        (["-D", "parallelism.default=2", "FILE", "--", "-s", "x"], "[(2, 'told')] ['-s', 'x']"),
    ],
    ids=["before", "behind", "behind with arguments", "not among arguments", "not behind a dash"],
)
def test_settings_stand_before_or_directly_behind_the_file(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    command = [str(PROGRAMS / "told.py") if each == "FILE" else each for each in arguments]

    ran = run(tmp_path, TIDEGATE, "run", *command, environ={"TIDEGATE_EXECUTION_TARGET": "inline"})

    assert ran.stdout == f"{expected}\n", ran.stderr


@pytest.mark.parametrize("target", ["inline", "embedded"])
def test_a_failing_function_is_shown_with_its_own_traceback_and_its_record(
    tmp_path: Path, target: str
) -> None:
    settings = ("-D", f"execution.target={target}", "-D", "parallelism.default=2")

    ran = run(tmp_path, TIDEGATE, "run", *settings, PROGRAMS / "failing.py")

    assert ran.returncode == 1
    assert "return 10 // (number - 7)" in ran.stderr
    assert "<tidegate chain" not in ran.stderr
    assert "ZeroDivisionError: integer division or modulo by zero" in ran.stderr
    assert "environment.py" not in ran.stderr, "our own frames stay out of the way"
    assert ran.stderr.splitlines()[-1] == (
        "tidegate: job 'failing' failed and its restarts are used up: operator 'inverse' (uid 'inverse-1', subtask "
        "collection-1[1]) failed on record 7 at position 7 of split '5-10': ZeroDivisionError: "
        "integer division or modulo by zero"
    )


def test_python_shows_the_line_of_another_process_too(tmp_path: Path) -> None:
    ran = run(tmp_path, sys.executable, PROGRAMS / "failing.py")

    assert ran.returncode == 1
    assert "return 10 // (number - 7)" in ran.stderr
    assert "failed on record 7 at position 7 of split" in ran.stderr


@pytest.mark.parametrize(
    ("environ", "toml", "line", "message"),
    [
        ({"TIDEGATE_PARALELISM": "2"}, "", (), "unknown option 'PARALELISM' in environment"),
        ({}, "state.backend.type = 3", (), "tidegate.toml has an invalid value; got 3; expected str"),
        (
            {},
            "",
            ("-D", "parallelism.default=many"),
            "in command line has an invalid value; got 'many'; expected int",
        ),
        ({}, "", ("-D", "parallelism"), "invalid option on the command line; got 'parallelism'"),
        (
            {},
            "",
            ("--fresh", "-s", "3"),
            "--fresh starts without state and -s starts from a checkpoint; got both; give one",
        ),
    ],
    ids=["environment", "file", "line", "no value", "contradiction"],
)
def test_a_wrong_setting_is_one_line_and_exit_code_two(
    tmp_path: Path, environ: dict[str, str], toml: str, line: tuple[str, ...], message: str
) -> None:
    (tmp_path / "tidegate.toml").write_text(toml)

    ran = run(tmp_path, TIDEGATE, "run", *line, PROGRAMS / "told.py", environ=environ)

    assert ran.returncode == 2
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("tidegate: ")
    assert message in last
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [("ConfigError", 2), ("FencedError", 3), ("CommitUnknownError", 4), ("JobFailedError", 1)],
)
def test_an_error_has_the_same_exit_code_however_a_program_is_started(
    tmp_path: Path, error: str, code: int
) -> None:
    job = tmp_path / "job.py"
    job.write_text(
        "from tidegate.datastream import StreamExecutionEnvironment\n"
        f"from tidegate.errors import {error}\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        f"raise {error}('what is wrong; what to do')\n"
    )

    by_us = run(tmp_path, TIDEGATE, "run", job)
    by_python = run(tmp_path, sys.executable, "-P", job)

    assert (by_us.returncode, by_python.returncode) == (code, code)
    assert f"{error}: what is wrong; what to do" in by_python.stderr
    assert "Traceback" in by_python.stderr
