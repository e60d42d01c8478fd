"""Words typed into a socket, counted in windows of the clock and printed: programs of their own, real servers."""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NoReturn

import pytest

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.socket import SocketTextSource
from tidegate.runtime.graph.transformations import Transformation
from tidegate.runtime.launch import Launch, instead_of_running

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "socket_word_count.py"
LINES = b"to be\nor not\nto be\n"
TUMBLING = """
import sys
from tidegate.common import Duration
from tidegate.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from tidegate.datastream.window import TumblingProcessingTimeWindows


class InWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        ((word, count),) = elements
        yield context.window().start, context.window().end, word, count


env = StreamExecutionEnvironment.get_execution_environment()
lines = env.socket_text_stream("localhost", int(sys.argv[2]))
words = lines.flat_map(lambda line: [(word, 1) for word in line.split()]).key_by(lambda pair: pair[0])
windows = words.window(TumblingProcessingTimeWindows.of(Duration.of_seconds(5)))
counts = windows.reduce(lambda one, two: (one[0], one[1] + two[1]), InWindow())
counts.print().set_parallelism(1)
env.execute("socket word count")
"""

both = pytest.mark.parametrize("executor", ["inline", "embedded"])


@contextlib.contextmanager
def typed_into(program: Path, executor: str) -> Iterator[tuple[socket.socket, IO[str]]]:
    """A program at work: the connection that it reads, and what it prints; it ends well when the connection does."""
    environ = {
        "XDG_STATE_HOME": str(program.parent),
        "TIDEGATE_EXECUTION_TARGET": executor,
        "TIDEGATE_PARALLELISM_DEFAULT": "2",
    }
    with socket.create_server(("localhost", 0)) as server:
        command = [sys.executable, "-P", str(program), "--port", str(server.getsockname()[1])]
        process = subprocess.Popen(
            command, env={**os.environ, **environ}, cwd=program.parent, stdout=subprocess.PIPE, text=True
        )
        with process:
            assert process.stdout is not None
            connection, _ = server.accept()
            with connection:
                yield connection, process.stdout
            assert process.stdout.read() == ""
    assert process.returncode == 0


def counted(lines: Iterable[str], shape: str, expected: Counter[str]) -> list[re.Match[str]]:
    """The lines of a program, until as many words are counted as expected."""
    found, matches = Counter[str](), []
    for line in lines:
        match = re.fullmatch(shape, line.rstrip("\n"))
        assert match is not None, line
        matches.append(match)
        found[match["word"]] += int(match["count"])
        if found.total() >= expected.total():
            break
    assert found == expected
    return matches


@both
@pytest.mark.spec("000/EX-01")
def test_words_are_counted_over_tumbling_windows_of_five_seconds(executor: str, tmp_path: Path) -> None:
    program = tmp_path / "tumbling.py"
    program.write_text(TUMBLING, encoding="utf-8")
    expected = Counter({"to": 2, "be": 2, "or": 1, "not": 1})
    shape = r"\((?P<start>\d+), (?P<end>\d+), '(?P<word>\w+)', (?P<count>\d+)\)"
    windows: list[tuple[int, str]] = []

    with typed_into(program, executor) as (connection, printed):
        for _ in range(2):
            typed_at = SYSTEM_CLOCK.now_ms()
            connection.sendall(LINES)
            for match in counted(printed, shape, expected):
                start, end = int(match["start"]), int(match["end"])
                windows.append((start, match["word"]))
                assert (start % 5_000, end - start) == (0, 5_000)
                assert typed_at < end <= SYSTEM_CLOCK.now_ms(), "printed when the window is over"

    assert len(set(windows)) == len(windows), "a word is counted once in each window"


@both
@pytest.mark.spec("004/AX-001")
def test_words_are_counted_twice_over_sliding_windows(executor: str, tmp_path: Path) -> None:
    program = tmp_path / EXAMPLE.name
    program.write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    expected = Counter({"to": 4, "be": 4, "or": 2, "not": 2})

    with typed_into(program, executor) as (connection, printed):
        connection.sendall(LINES)
        counted(printed, r"WordWithCount\{word='(?P<word>\w+)', count=(?P<count>\d+)\}", expected)


@pytest.mark.spec("004/AX-001")
def test_a_missing_port_is_reported_and_nothing_runs_before_execute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    launches: list[Launch] = []

    class Executed(BaseException):
        pass

    def take(launch: Launch) -> NoReturn:
        launches.append(launch)
        raise Executed

    monkeypatch.setattr("sys.argv", [str(EXAMPLE)])
    # No server listens: a program that did anything before it is executed would fail.
    with instead_of_running(take), pytest.raises(Executed):
        runpy.run_path(str(EXAMPLE))

    (launch,) = launches
    step: Transformation = launch.steps[0]
    while step.inputs:
        step = step.inputs[0].transformation
    assert isinstance(step.payload, SocketTextSource)
    assert (step.payload.port, step.payload.delimiter) == (9000, "\n")
    assert launch.job_name == "streaming word count"
    assert capsys.readouterr().err == "no --port was given, using the default 9000\n"
