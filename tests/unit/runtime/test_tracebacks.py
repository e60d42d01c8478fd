"""What a user sees of a failure: their own frames first, then where it happened, and nothing of the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.errors import InternalError, UserCodeError
from tidegate.runtime.tracebacks import hide_engine

PROGRAM = """
import sys
from tidegate.datastream import StreamExecutionEnvironment

def parse(text):
    return helper(text)

def helper(text):
    return int(text)

env = StreamExecutionEnvironment.get_execution_environment(
    {
        "execution.target": sys.argv[1],
        "pipeline.progress": "off",
        "parallelism.default": 2,
        "restart-strategy.fixed-delay.attempts": 0,
    }
)
lines = env.from_collection(["1", "2", "x", "4"]).map(str.strip).name("strip")
lines.map(parse).name("parse").uid("numbers").print()
env.execute("parsing")
"""


@pytest.mark.parametrize("target", ["inline", "embedded"])
def test_a_failed_program_shows_the_users_frames_and_the_place_and_no_engine(
    target: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    ran = subprocess.run(
        [sys.executable, "-P", str(program), target], capture_output=True, text=True, timeout=60, check=False
    )

    assert ran.returncode == 1
    frames = [line for line in ran.stderr.splitlines() if line.startswith('  File "')]
    of_user = [line.rpartition(" in ")[2] for line in frames if f'"{program}"' in line]
    assert of_user == ["parse", "helper", "<module>"]
    assert len(frames) <= len(of_user) + 2, ran.stderr
    place = (
        "operator 'parse' (uid 'numbers', subtask collection-1[1]) failed on record 'x' at position 2 of split '2-4': "
        "ValueError: invalid literal for int() with base 10: 'x'"
    )
    assert f"tidegate.errors.UserCodeError: {place}\n" in ran.stderr
    assert ran.stderr.endswith(
        f"tidegate.errors.JobFailedError: job 'parsing' failed and its restarts are used up: {place}\n"
    )


def test_a_defect_of_the_engine_keeps_every_frame() -> None:
    with pytest.raises(InternalError) as caught:
        raise InternalError("impossible") from UserCodeError("why")
    before = caught.value.__traceback__

    hide_engine(caught.value)

    assert before is not None
    assert caught.value.__traceback__ is before
