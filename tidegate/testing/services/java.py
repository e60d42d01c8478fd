"""Lookup of a Java that is new enough for the broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tidegate.errors import ConfigError

__all__ = ["OLDEST_JAVA", "find_java", "parse_version"]

OLDEST_JAVA = 17
_REMEDY = f"expected Java {OLDEST_JAVA} or newer; install one, e.g. apt install openjdk-17-jre-headless, or set JAVA_HOME"


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """The `java` of JAVA_HOME if that is set, otherwise the first on PATH.

    Raises:
        ConfigError: there is none, it does not run, or it is too old.
    """
    home = environment.get("JAVA_HOME")
    found = (
        str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH", ""))
    )
    if found is None:
        raise ConfigError(f"java was not found on PATH and JAVA_HOME is not set; {_REMEDY}")
    try:
        answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise ConfigError(f"java cannot be run: {error}; {_REMEDY}") from error
    version = parse_version(answer.stderr + answer.stdout)
    if version is None:
        raise ConfigError(
            f"{found} -version printed no version number, exit code {answer.returncode}; {_REMEDY}"
        )
    if version < OLDEST_JAVA:
        raise ConfigError(f"{found} is Java {version}; {_REMEDY}")
    return Path(found)


def parse_version(text: str) -> int | None:
    """The major version out of what `java -version` prints.

    Example:
        >>> parse_version('openjdk version "21.0.2" 2024-01-16'), parse_version('java version "1.8.0_402"')
        (21, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None
