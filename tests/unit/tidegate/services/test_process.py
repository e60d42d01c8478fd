from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.errors import ConfigError, UnavailableError
from tidegate.testing.services.process import LOOPBACK, GuardedProcess, Port, tail

TIMEOUT_S = 30


@pytest.fixture
def guarded() -> Iterator[GuardedProcess]:
    process = GuardedProcess("test")
    yield process
    process.close()


def ended(pid: int) -> bool:
    """Wait for a process that is not our child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], TIMEOUT_S)[0])
    finally:
        os.close(handle)


def start_family(process: GuardedProcess, pipe: Path) -> list[int]:
    """Run a shell with a child that left its process group; the pids are guard, shell, child."""
    os.mkfifo(pipe)
    script = f"setsid sleep 1000 & echo $PPID $$ $! > {pipe}; wait"
    process.run(["sh", "-c", script], process.directory / "log")
    return [int(pid) for pid in pipe.read_text().split()]


def test_a_reserved_port_refuses_clients_and_lets_one_server_listen() -> None:
    port = Port()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port.number))
    with (
        socket.create_server((LOOPBACK, port.number)),
        socket.create_connection((LOOPBACK, port.number)) as client,
    ):
        assert client.getpeername()[1] == port.number
    port.release()


def test_a_port_somebody_listens_on_is_refused_by_name() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        number = server.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"^port {number} on 127.0.0.1 is in use; choose another, or 0 for a free"
        ):
            Port(number)


def test_a_port_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"^port 70000 cannot be opened: .* expected 1024 to 65535, or 0"):
        Port(70000)


def test_the_exit_code_and_the_output_are_kept(guarded: GuardedProcess) -> None:
    log = guarded.directory / "log"
    guarded.run(["sh", "-c", "echo out; echo err >&2; exit 3"], log)
    assert guarded.wait(TIMEOUT_S) == 3
    assert tail(log) == "    out\n    err"
    assert not guarded.running


def test_a_program_that_does_not_exist_ends_with_127_and_says_so_in_the_log(guarded: GuardedProcess) -> None:
    log = guarded.directory / "log"
    guarded.run(["/nowhere/server"], log)
    assert guarded.wait(TIMEOUT_S) == 127
    assert "No such file or directory: '/nowhere/server'" in tail(log)


def test_waiting_for_a_running_server_gives_none(guarded: GuardedProcess) -> None:
    guarded.run(["sleep", "1000"], guarded.directory / "log")
    assert guarded.wait(0) is None
    assert guarded.running


def test_killing_the_server_takes_its_children_and_keeps_its_directory(
    guarded: GuardedProcess, tmp_path: Path
) -> None:
    _, shell, child = start_family(guarded, tmp_path / "pids")
    guarded.signal(signal.SIGKILL)
    assert guarded.wait(TIMEOUT_S) == -signal.SIGKILL
    assert not Path(f"/proc/{shell}").exists()
    assert not Path(f"/proc/{child}").exists()
    assert guarded.directory.is_dir()


def test_closing_leaves_neither_processes_nor_the_directory(tmp_path: Path) -> None:
    process = GuardedProcess("test")
    pids = start_family(process, tmp_path / "pids")
    process.close()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert not process.directory.exists()


@pytest.mark.crash
def test_a_killed_owner_leaves_neither_processes_nor_the_directory(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pids")
    script = (
        "import signal\n"
        "from tidegate.testing.services.process import GuardedProcess\n"
        "process = GuardedProcess('test')\n"
        f"shell = 'setsid sleep 1000 & echo $PPID $$ $! $PWD > {tmp_path}/pids; wait'\n"
        "process.run(['sh', '-c', shell], process.directory / 'log')\n"
        "signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-P", "-c", script]) as owner:
        *pids, directory = (tmp_path / "pids").read_text().split()
        owner.kill()
    assert all(ended(int(pid)) for pid in pids)
    assert not Path(directory).exists()


@pytest.mark.crash
def test_a_killed_guard_takes_the_server_with_it_and_is_reported(tmp_path: Path) -> None:
    process = GuardedProcess("test")
    guard, shell, child = start_family(process, tmp_path / "pids")
    os.kill(guard, signal.SIGKILL)
    assert ended(shell)
    with pytest.raises(
        UnavailableError, match=rf"^the guard of a server died \(process {guard}\); start the service"
    ):
        process.wait(TIMEOUT_S)
    process.close()
    os.kill(child, signal.SIGKILL)  # it left the server on purpose: only a guard could have found it
    (process.directory / "log").unlink()
    process.directory.rmdir()


def test_a_terminated_guard_still_cleans_up(tmp_path: Path) -> None:
    process = GuardedProcess("test")
    guard, *family = start_family(process, tmp_path / "pids")
    os.kill(guard, signal.SIGTERM)
    process.close()
    assert [pid for pid in family if Path(f"/proc/{pid}").exists()] == []
    assert not process.directory.exists()


def test_the_tail_of_an_empty_or_missing_log_says_so(tmp_path: Path) -> None:
    assert tail(tmp_path / "none") == "    (the log is empty)"
