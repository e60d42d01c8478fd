"""What a user sees of a failure: their own frames first, then where it happened, and nothing of the engine."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from tidegate.errors import InternalError, UserCodeError
from tidegate.runtime.tracebacks import hide_engine, pack_error, unpack_error

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
lines = env.from_parallel_collection(["1", "2", "x", "4"]).map(str.strip).name("strip")
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
    assert ran.stderr.startswith(
        f'Traceback (most recent call last):\n  File "{program}", line 6, in parse\n    return helper(text)\n'
    )
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


class PickyError(Exception):
    """Cannot be made again from what it says."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} is not {two}")


def failing() -> BaseException:
    """An error with what led to it, as caught."""
    numbers: dict[str, int] = {}
    try:
        try:
            try:
                numbers["key"]
            except KeyError as error:
                raise PickyError(1, 2) from error
        except PickyError as error:
            raise ValueError("why") from error
    except ValueError as caught:
        caught.add_note("a note")
        last = caught
    return last


def without_carets(error: BaseException | None) -> list[str]:
    assert error is not None
    text = "".join(traceback.format_exception(error))
    return [line for line in text.splitlines() if line.strip("~^ ")]


def test_an_exception_from_another_process_reads_as_it_did_there() -> None:
    error = failing()

    arrived = unpack_error(pickle.loads(pickle.dumps(pack_error(error))))

    assert without_carets(arrived) == without_carets(error)
    assert isinstance(arrived, ValueError)
    assert isinstance(arrived.__cause__, Exception)
    assert isinstance(arrived.__cause__.__cause__, KeyError)


def test_what_led_to_an_exception_unasked_and_what_hides_it_arrive_too() -> None:
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")  # noqa: B904
    except ValueError as caught:
        error = caught
    shown = unpack_error(pack_error(error))
    error.__suppress_context__ = True
    hidden = unpack_error(pack_error(error))

    assert "During handling of the above exception" in "".join(without_carets(shown))
    assert "first" not in "".join(without_carets(hidden))


def test_exceptions_that_lead_to_each_other_are_carried_once() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one

    arrived = unpack_error(pack_error(one))

    assert arrived is not None
    assert repr(arrived.__cause__) == "ValueError('two')"
    assert arrived.__cause__ is not None
    assert arrived.__cause__.__cause__ is None


def test_nothing_is_carried_as_nothing() -> None:
    assert unpack_error(pack_error(None)) is None
