"""URLs of Spark masters.

Example:
    >>> [is_master(target) for target in ("local[*]", "local[2,4]", "spark://one:7077,two:7077", "yarn", "local[two]")]
    [True, True, True, True, False]
    >>> local_with_retries("local[2]"), local_with_retries("spark://host:7077")
    ('local[2,4]', 'spark://host:7077')
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Final

__all__ = [
    "MASTERS",
    "is_local",
    "is_master",
    "local_with_retries",
    "on_loopback",
    "standalone",
    "tasks_at_once",
]

MASTERS: Final = "local, local[2], local[*], local[2,4], spark://host:7077, yarn, or k8s://https://host:6443"
"""The known forms, for messages."""

_LOCAL: Final = r"local(?:\[(?P<threads>\d+|\*)(?:,(?P<attempts>\d+))?\])?"
_REMOTE: Final = r"spark://[^:,/]+:\d+(?:,[^:,/]+:\d+)*|yarn|k8s://\S+"


def is_master(target: str) -> bool:
    """Whether this is the URL of a master that jobs run on."""
    return re.fullmatch(f"{_LOCAL}|{_REMOTE}", target) is not None


def is_local(target: str) -> bool:
    """Whether executors are part of the driver's Java process."""
    return re.fullmatch(_LOCAL, target) is not None


def on_loopback(target: str) -> bool:
    """Whether all processes that connect to the driver are on this machine."""
    return is_local(target) or re.match(r"spark://(localhost|127\.)", target) is not None


def local_with_retries(target: str) -> str:
    """The same target; a local master gets retries of dead tasks, as every cluster has."""
    local = re.fullmatch(_LOCAL, target)
    return f"local[{local['threads'] or 1},4]" if local and not local["attempts"] else target


def standalone(target: str) -> list[tuple[str, int]]:
    """The addresses of standalone masters, of which one has to answer; empty for other targets.

    Example:
        >>> standalone("spark://one:7077,two:7078"), standalone("yarn")
        ([('one', 7077), ('two', 7078)], [])
    """
    listed = target.removeprefix("spark://").split(",") if target.startswith("spark://") else []
    return [(host, int(port)) for host, _, port in (each.rpartition(":") for each in listed)]


def tasks_at_once(target: str, said: Callable[[str], str | None]) -> int:
    """The number of tasks that an executor runs at the same time, by the URL of the master and Spark's settings.

    On a standalone cluster without a limit of cores an executor uses all cores of its machine, assumed to be like this one.

    Example:
        >>> settings = {"spark.executor.cores": "8", "spark.task.cpus": "2"}
        >>> tasks_at_once("local[6]", {}.get), tasks_at_once("yarn", {}.get), tasks_at_once("yarn", settings.get)
        (6, 1, 4)
    """
    local = re.fullmatch(_LOCAL, target)
    if local is not None:
        cores = local["threads"] or "1"
    else:
        cores = said("spark.executor.cores") or ("*" if standalone(target) else "1")
    count = os.cpu_count() or 1 if cores == "*" else int(cores)
    return max(1, count // int(said("spark.task.cpus") or 1))
