"""`tidegate doctor`: shows what is installed and what is missing, with a command that installs it.

What is needed and what is optional is read from the installed distribution, so the list cannot go stale.

Example:
    >>> [(each.name, each.ok) for each in libraries(["msgspec>=0.19", "no-such-library; extra == 's3'"])]
    [('msgspec', True), ('s3', False)]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

__all__ = ["Diagnosis", "doctor", "examine", "java", "libraries", "register", "run", "state_root"]

JAVA_NEEDED: Final = 17

_REQUIREMENT: Final = re.compile(
    r"(?P<name>[\w.-]+)(?:\[[^]]*\])?(?P<versions>[^;]*)(?:;.*extra == ['\"](?P<extra>\w+)['\"])?"
)
_MINIMUM: Final = re.compile(r">=\s*([\d.]+)")

_UNUSED: Final = frozenset({"debezium", "dev", "lake", "mysql"})
"""Extras for developers, and those that this version does not use."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing looked at."""

    name: str
    ok: bool
    found: str
    """The version or path found; what is missing if it is not ok."""
    remedy: str
    """A command that repairs it; empty if it is ok."""
    needed: bool = False
    """Whether tidegate cannot run without it."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Mount the command."""
    parser = subparsers.add_parser(
        "doctor", help="check the installation: what is installed, what is missing, how to install it"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command line says."""
    return doctor(as_json=arguments.json)


def doctor(*, as_json: bool = False) -> int:
    """Print what was found; 0 if everything needed is there, 1 if not."""
    findings = examine()
    ok = all(each.ok for each in findings if each.needed)
    if as_json:
        print(json.dumps({"ok": ok, "findings": [asdict(each) for each in findings]}, indent=2))
    else:
        print("\n".join(_lines(findings)))
        print(
            "all required parts are installed" if ok else "a required part is missing; run the commands above"
        )
    return 0 if ok else 1


def examine() -> list[Diagnosis]:
    """Look at everything, what is needed first."""
    python = Diagnosis("python", True, f"{platform.python_version()} at {sys.executable}", "", needed=True)
    listed = libraries(metadata.requires("tidegate") or [])
    return sorted([python, *listed, state_root(), java(), _maven()], key=lambda each: not each.needed)


def libraries(requirements: Iterable[str]) -> list[Diagnosis]:
    """One finding per core library and one per extra, from requirements as a distribution states them."""
    core: list[Diagnosis] = []
    extras: dict[str, list[tuple[bool, str]]] = defaultdict(list)
    for requirement in requirements:
        parsed = _REQUIREMENT.match(requirement)
        if parsed is None or parsed["name"] == "tidegate":
            continue
        ok, found = _installed(parsed["name"], parsed["versions"])
        if parsed["extra"] is None:
            remedy = "" if ok else f"pip install '{parsed['name']}{parsed['versions'].strip()}'"
            core.append(Diagnosis(parsed["name"], ok, found, remedy, needed=True))
        elif parsed["extra"] not in _UNUSED:
            extras[parsed["extra"]].append((ok, found))
    return core + [_extra(name, parts) for name, parts in extras.items()]


def state_root() -> Diagnosis:
    """Whether checkpoints can be written where they go by default."""
    base = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    root = Path(base) / "tidegate"
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return Diagnosis("state root", True, str(root), "", needed=True)
    return Diagnosis(
        "state root", False, f"{existing} is not writable", "export XDG_STATE_HOME=$PWD/state", needed=True
    )


def java() -> Diagnosis:
    """Java runs Spark, and the Kafka broker of the tests."""
    remedy = f"apt-get install -y --no-install-recommends openjdk-{JAVA_NEEDED}-jre-headless"
    home = os.environ.get("JAVA_HOME")
    command = f"{home}/bin/java" if home else "java"
    if shutil.which(command) is None:
        return Diagnosis("java", False, f"{command} is missing", remedy)
    said = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "((\d+)[^"]*)"', said)
    if version is None:
        return Diagnosis("java", False, f"{command} does not report its version", remedy)
    if int(version[2]) < JAVA_NEEDED:
        return Diagnosis("java", False, f"java {version[1]} is older than {JAVA_NEEDED}", remedy)
    return Diagnosis("java", True, f"java {version[1]}", "")


def _maven() -> Diagnosis:
    place = shutil.which("mvn")
    return Diagnosis(
        "mvn", place is not None, place or "mvn is missing", "" if place else "apt-get install -y maven"
    )


def _installed(name: str, versions: str) -> tuple[bool, str]:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return False, f"{name} is missing"
    minimum = _MINIMUM.search(versions)
    if minimum and _numbers(version) < _numbers(minimum[1]):
        return False, f"{name} {version} is older than {minimum[1]}"
    return True, f"{name} {version}"


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _extra(name: str, parts: list[tuple[bool, str]]) -> Diagnosis:
    ok = all(present for present, _ in parts)
    found = ", ".join(text for present, text in parts if present == ok)
    return Diagnosis(name, ok, found, "" if ok else f"pip install 'tidegate[{name}]'")


def _lines(findings: list[Diagnosis]) -> list[str]:
    lines = []
    for each in findings:
        state = "ok" if each.ok else "MISSING" if each.needed else "absent"
        lines.append(f"{state:8} {each.name:12} {each.found}")
        if each.remedy:
            lines.append(f"{'':21} run: {each.remedy}")
    return lines
