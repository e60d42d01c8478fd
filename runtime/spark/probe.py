"""Looks at the executors of a cluster before a program runs there, so that what they lack is said in one sentence.

What looks travels by value and imports what it looks for itself: where tidegate is missing, nothing else could say so.
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
"""What is left to be said when Spark has given up by itself."""


def examine(context: SparkContext, storage: CheckpointStorage) -> bool:
    """Look at as many executors as there are; whether all of them could load beforehand what every epoch needs.

    Raises:
        ConfigError: one of them cannot run programs, or does not see the checkpoint storage.
        UnavailableError: Spark could not look.
    """
    token = f"probe-{new_id(8)}"
    storage.blobs.put(f"{token}/driver", token.encode())
    try:
        everything = _look_everywhere(context, pack("the checkpoint storage", storage), token)
        for found in everything:
            _judge(found, storage.url)
            if not storage.blobs.list(f"{token}/{found['task']}"):
                raise _unseen(found, storage.url, "what it writes there is not seen by the driver")
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
    """What one executor is like; runs there, where this module may be missing."""
    import contextlib
    import platform
    import subprocess
    import sys
    from importlib import metadata

    import pyspark

    found = {"task": task, "host": platform.node(), "python": sys.executable, "lacks": None, "storage": None}
    # PySpark's own word: workers get it from Spark's directory there, whatever is installed beside.
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
    # The process that workers are forked from starts without what is shipped with a job.
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
        "share, such as s3://; let state.checkpoints.dir name one"
    )


def _blind(context: SparkContext, cause: Cause) -> TidegateError:
    """Why nobody could look."""
    other = re.search(r"PYTHON_VERSION_MISMATCH.* different version: (\d+\.\d+)", cause.python)
    if _STOPPED in cause.text:
        return UnavailableError(
            f"spark at {context.master} took no program for a minute; a master of another version of Spark than PySpark "
            f"{pyspark.__version__} here does so; install the same on both"
        )
    if other is None:
        return UnavailableError(f"spark could not look at its executors: {cause}")
    return ConfigError(
        f"executors on {machines_that_failed(context, _GROUP)} run Python {other[1]}; expected "
        f"{'.'.join(platform.python_version_tuple()[:2])}, as the driver has; let PYSPARK_PYTHON name one that is the same everywhere"
    )
