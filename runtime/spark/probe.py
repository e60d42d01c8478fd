"""Probes the executors of a cluster before a program runs there, so that missing requirements are reported clearly.

The probe function is pickled by value and imports tidegate itself, so that it can report a missing installation.
"""

from __future__ import annotations

import platform
import re
import sys
from importlib import metadata
from typing import Any, TypeAlias

import pyspark
from pyspark import SparkContext, cloudpickle

from tidegate.backends.spi import CheckpointStorage
from tidegate.clock import new_id
from tidegate.errors import ConfigError, TidegateError, UnavailableError
from tidegate.runtime.shipping import pack
from tidegate.runtime.spark.causes import Cause, machines_that_failed

__all__ = ["examine"]

_Found: TypeAlias = dict[str, Any]

_GROUP = "tidegate-probe"
_STOPPED = "Cannot call methods on a stopped SparkContext"
"""Spark's error after it has given up by itself."""


def examine(context: SparkContext, storage: CheckpointStorage) -> bool:
    """Probe all current executors; returns whether all of them can preload the modules of epochs.

    Raises:
        ConfigError: one of them cannot run programs, or does not see the checkpoint storage.
        UnavailableError: Spark could not run the probe.
    """
    token = f"probe-{new_id(8)}"
    storage.blobs.put(f"{token}/driver", token.encode())
    try:
        everything = _look_everywhere(context, pack("the checkpoint storage", storage), token)
        for found in everything:
            _judge(found, storage.url)
            if not storage.blobs.list(f"{token}/{found['task']}"):
                raise _unseen(found, storage.url, "the driver cannot see the files it writes there")
    finally:
        storage.blobs.delete(storage.blobs.list(token))
    return all(found["preloads"] for found in everything)


def _look_everywhere(context: SparkContext, storage: bytes, token: str) -> list[_Found]:
    tasks = context.defaultParallelism
    this = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(this)
    try:
        context.setJobGroup(_GROUP, "tidegate looks at the executors", interruptOnCancel=True)
        asked = context.parallelize(range(tasks), tasks)
        found: list[_Found] = asked.map(lambda task: _look(task, storage, token)).collect()
    except Exception as error:
        raise _blind(context, Cause.of(error)) from error
    finally:
        cloudpickle.unregister_pickle_by_value(this)
    return found


def _look(task: int, storage: bytes, token: str) -> _Found:
    """The properties of one executor; runs there, where this module may be missing."""
    import contextlib
    import platform
    import subprocess
    import sys
    from importlib import metadata

    import pyspark

    found = {"task": task, "host": platform.node(), "python": sys.executable, "lacks": None, "storage": None}
    # The version that PySpark reports: workers import it from Spark's directory, not from installed packages.
    versions: dict[str, str | None] = {"tidegate": None, "pyspark": pyspark.__version__}
    with contextlib.suppress(metadata.PackageNotFoundError):
        versions["tidegate"] = metadata.version("tidegate")
    found |= {"versions": versions, "preloads": False}
    try:
        from tidegate.runtime.shipping import unpack
    except ImportError as error:
        return found | {"lacks": f"{type(error).__name__}: {error}"}
    try:
        blobs = unpack(storage).blobs
        with blobs.open(f"{token}/driver") as file:
            file.read()
        blobs.put(f"{token}/{task}", b"seen")
    except Exception as error:
        found["storage"] = f"{type(error).__name__}: {error}"
    # The daemon that workers are forked from starts without the files shipped with a job.
    sought = "from importlib.util import find_spec; find_spec('tidegate.runtime.spark.daemon').loader"
    tried = [sys.executable, "-P", "-c", sought]
    found["preloads"] = subprocess.run(tried, capture_output=True, cwd="/", check=False).returncode == 0
    return found


def _judge(found: _Found, url: str) -> None:
    where = f"the executor on {found['host']} ({found['python']})"
    if found["lacks"] is not None:
        raise ConfigError(
            f"{where} cannot run tidegate: {found['lacks']}; install tidegate[spark] {metadata.version('tidegate')} there, or "
            "ship it with the job, as docs/spark.md says"
        )
    for name, version in found["versions"].items():
        ours = pyspark.__version__ if name == "pyspark" else metadata.version(name)
        if version is not None and version != ours:
            raise ConfigError(
                f"{where} has {name} {version}; expected {ours}, as the driver has; install the same on both"
            )
    if found["storage"] is not None:
        raise _unseen(found, url, found["storage"])


def _unseen(found: _Found, url: str, why: str) -> ConfigError:
    return ConfigError(
        f"the executor on {found['host']} cannot use the checkpoint storage {url}: {why}; expected a storage that all machines "
        "share, such as s3://; set state.checkpoints.dir to one"
    )


def _blind(context: SparkContext, cause: Cause) -> TidegateError:
    """The error for a failed probe."""
    other = re.search(r"PYTHON_VERSION_MISMATCH.* different version: (\d+\.\d+)", cause.python)
    if _STOPPED in cause.text:
        return UnavailableError(
            f"spark at {context.master} accepted no program for a minute, as a master of another Spark version than PySpark "
            f"{pyspark.__version__} does; install the same version on both"
        )
    if other is None:
        return UnavailableError(f"spark could not probe its executors: {cause}")
    return ConfigError(
        f"executors on {machines_that_failed(context, _GROUP)} run Python {other[1]}; expected "
        f"{'.'.join(platform.python_version_tuple()[:2])}, as the driver has; set PYSPARK_PYTHON to one that is the same on all machines"
    )
