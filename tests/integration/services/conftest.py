from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import until


def _belongs(process: Path, directory: Path) -> bool:
    try:
        started = (process / "cmdline").read_bytes().decode(errors="replace")
        where = str((process / "cwd").readlink())
    except OSError:  # it ended meanwhile
        return False
    return str(directory) in started or where.startswith(str(directory))


@pytest.fixture
def assert_nothing_left() -> Callable[[Path, int], None]:
    """Look for the directory, for processes of any user that run in it, and for somebody at the port."""

    def check(directory: Path, port: int) -> None:
        assert not directory.exists()
        # A process that ends has closed its files before it is quite gone.
        until(lambda: [each for each in Path("/proc").glob("[0-9]*") if _belongs(each, directory)], equals=[])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=1)

    return check
