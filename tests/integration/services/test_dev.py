from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.service

COMMAND = """
import argparse, sys
from tidegate.runtime.cli import dev
parser = argparse.ArgumentParser()
dev.register(parser.add_subparsers())
arguments = parser.parse_args()
sys.exit(arguments.run(arguments))
"""
READY = " is ready on 127.0.0.1:"
NothingLeft = Callable[[Path, int], None]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where servers make their directories; one that runs as another user must be able to enter it."""
    with tempfile.TemporaryDirectory(prefix="tidegate-test-dev-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def dev(*words: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-P", "-c", COMMAND, "dev", *words]
    pipe, environment = subprocess.PIPE, {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.terminate()


def read_port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if READY in line:
            return int(line.partition(READY)[2].partition(";")[0])
    raise AssertionError(process.stderr and process.stderr.read())


def read_example(process: subprocess.Popen[str]) -> str:
    """The printed Python, up to the empty line that ends it."""
    assert process.stdout is not None
    assert process.stdout.readline() == "try in Python:\n"
    assert process.stdout.readline() == "\n"
    return "".join(iter(process.stdout.readline, "\n"))


def wait_for_guard(process: subprocess.Popen[str]) -> str:
    """What was written to stderr until everybody who holds it has ended; the guard is the last."""
    assert process.stderr is not None
    return process.stderr.read()


@pytest.mark.parametrize(
    ("service", "number", "answer"),
    [("postgres", signal.SIGINT, "PostgreSQL 1"), ("kafka", signal.SIGTERM, "b'hello'")],
    ids=["postgres until Ctrl-C", "kafka until SIGTERM"],
)
def test_it_prints_an_example_that_works_and_stops_cleanly(
    service: str, number: signal.Signals, answer: str, folder: Path, assert_nothing_left: NothingLeft
) -> None:
    with dev(service, folder=folder) as process:
        port = read_port(process)
        (directory,) = folder.iterdir()
        example = [sys.executable, "-c", read_example(process)]
        assert answer in subprocess.run(example, capture_output=True, text=True, check=True).stdout
        process.send_signal(number)
        assert wait_for_guard(process) == ""
        assert process.wait() == 0
        assert process.stdout is not None
        assert process.stdout.read() == f"{service} is stopped\n"
    assert_nothing_left(directory, port)


@pytest.mark.crash
@pytest.mark.parametrize("service", ["postgres", "kafka"])
def test_a_killed_owner_leaves_nothing(service: str, folder: Path, assert_nothing_left: NothingLeft) -> None:
    with dev(service, folder=folder) as process:
        port = read_port(process)
        (directory,) = folder.iterdir()
        process.kill()
        wait_for_guard(process)
    assert_nothing_left(directory, port)


def test_a_server_that_dies_ends_the_command_with_its_log(
    folder: Path, assert_nothing_left: NothingLeft
) -> None:
    with dev("postgres", folder=folder) as process:
        port = read_port(process)
        (directory,) = folder.iterdir()
        server = int((directory / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(server, signal.SIGKILL)
        complaint = wait_for_guard(process)
    assert "UnavailableError: postgres ended with exit code -9; the end of its log:" in complaint
    assert_nothing_left(directory, port)


def test_a_port_in_use_is_told_before_anything_starts(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with dev("postgres", "--port", str(port), folder=folder) as process:
            complaint = wait_for_guard(process)
    assert f"ConfigError: port {port} on 127.0.0.1 is in use; choose another" in complaint
    assert list(folder.iterdir()) == []
