"""Environments of the systems that are compared, made from the package index when they are first needed.

They live in `$XDG_CACHE_HOME/tidegate/peers`, outside the repository, and are complete once their stamp is there.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import MissingExtraError, UnavailableError

__all__ = ["BYTEWAX", "BYTEWAX_KAFKA", "HAND", "PYFLINK", "QUIX", "Peer", "interpreter"]

JAVA = 11
JAVA_PACKAGE = "openjdk-17-jre-headless"


@dataclass(frozen=True)
class Peer:
    """A system as it is published: the name of its environment, what pip installs, and what pip cannot."""

    name: str
    requirement: str
    needs_java: bool = False
    besides: tuple[str, ...] = ()
    """What its programs need too."""


HAND = Peer("hand", "confluent-kafka==2.16.1", besides=("orjson",))
BYTEWAX = Peer("bytewax", "bytewax==0.21.1")
BYTEWAX_KAFKA = Peer("bytewax", "bytewax[kafka]==0.21.1", besides=("orjson",))
QUIX = Peer("quixstreams", "quixstreams==3.28.1")
PYFLINK = Peer("pyflink", "apache-flink==2.2.1", needs_java=True)


def interpreter(peer: Peer, cache: Path | None = None) -> Path:
    """The Python that has the peer; installs it first if it is not there yet.

    Raises:
        MissingExtraError: Java is missing.
        UnavailableError: pip could not install it.
    """
    if peer.needs_java and java_version() < JAVA:
        raise MissingExtraError(
            f"{peer.name} needs Java {JAVA} or newer on the PATH and there is none; "
            f"run: apt-get install {JAVA_PACKAGE}"
        )
    cache = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate"
    folder = cache / "peers" / peer.requirement
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _install(peer, folder / "venv")
            (folder / "complete").touch()
    return folder / "venv" / "bin" / "python"


def java_version() -> int:
    """The major version of the Java that would be started, 0 if there is none."""
    if shutil.which("java") is None:
        return 0
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def _install(peer: Peer, venv: Path) -> None:
    print(f"installing {peer.requirement} in {venv}", file=sys.stderr)
    python = str(venv / "bin" / "python")
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(venv)],
        [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            peer.requirement,
            *peer.besides,
        ],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnavailableError(
                f"{peer.requirement} could not be installed in {venv}: {' '.join(command[1:4])} ended with "
                f"{done.returncode}: {done.stderr.strip()[-500:]}"
            )
