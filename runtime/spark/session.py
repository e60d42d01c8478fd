"""Spark session: the active context, or a new one for the time of an attempt."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError, MissingExtraError, UnavailableError
from tidegate.runtime.spark.master import is_local, local_with_retries, on_loopback, standalone

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = [
    "OLDEST_JAVA",
    "check_java",
    "check_spark",
    "explained",
    "reach",
    "restartable",
    "settings_for",
    "spark_context",
]

OLDEST_JAVA = 17
_REMEDY = (
    f"install Java {OLDEST_JAVA} or newer (apt-get install openjdk-17-jre-headless) or set JAVA_HOME to one"
)

_REACH_S = 5.0
_OURS = "spark.tidegate.started"
"""Marks a context as started by tidegate."""
_DAEMON = {"spark.python.daemon.module": "tidegate.runtime.spark.daemon"}
_SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.task.killTimeout": "500ms",
    "spark.speculation": "false",
    "spark.ui.liveUpdate.period": "0",
    "spark.locality.wait": "500ms",
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}


def check_spark(environ: Mapping[str, str]) -> None:
    """Check that Spark can be started, before anything is changed.

    Raises:
        MissingExtraError: PySpark is not installed.
        ConfigError: this process uses Spark Connect, or there is no usable Java.
    """
    try:
        from pyspark.sql.utils import is_remote

        if is_remote():
            raise ConfigError(
                "this process is connected by Spark Connect, as on serverless clusters, and cannot start jobs from functions; "
                "expected a classic session: unset SPARK_REMOTE and start the program with spark-submit, or with "
                "tidegate run --on and the URL of a master; or set execution.target to embedded, which needs no Spark"
            )
        from pyspark import SparkContext
    except ImportError as error:
        raise MissingExtraError(
            "spark support is not installed; run: pip install 'tidegate[spark]'"
        ) from error
    if SparkContext._active_spark_context is None:  # the only test that does not start one
        check_java(environ)


def check_java(environ: Mapping[str, str]) -> None:
    """Check the Java that Spark would use.

    Raises:
        ConfigError: it is missing or too old.
    """
    home = environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin/java")) if home else "java", path=environ.get("PATH", ""))
    if java is None:
        place = f"below JAVA_HOME {home}" if home else "on PATH"
        raise ConfigError(f"spark needs java and there is none {place}; {_REMEDY}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None or int(version[1]) < OLDEST_JAVA:
        got = f"Java {version[1]}" if version else "no version"
        raise ConfigError(f"spark needs Java {OLDEST_JAVA} or newer; got {got} from {java}; {_REMEDY}")


@contextlib.contextmanager
def spark_context(master: str, name: str, *, preload: bool = True) -> Iterator[SparkContext]:
    """The active context, or a new one that is stopped at the end; `preload` if all executors can import tidegate.

    Raises:
        UnavailableError: Spark did not start.
    """
    from pyspark import SparkContext

    _forget_dead_java()
    active = SparkContext._active_spark_context
    if active is not None:
        yield active
        return
    reach(master)
    with _our_python(), _our_signals():
        try:
            context = _start(master, name, preload=preload)
        except Exception as error:
            raise UnavailableError(f"spark at {master} did not start: {error}") from error
    try:
        yield context
    finally:
        if not _forget_dead_java():
            with contextlib.suppress(Exception):  # Java may die at this moment; the next start detects it
                context.stop()


def reach(master: str) -> None:
    """Check that a standalone master answers: Spark itself would try for a minute.

    Raises:
        UnavailableError: no master answers.
    """
    refused = []
    for host, port in standalone(master):
        try:
            socket.create_connection((host, port), _REACH_S).close()
            return
        except OSError as error:
            refused.append(f"{host}:{port}: {error}")
    if refused:
        raise UnavailableError(
            f"no spark master answers at {master}: {'; '.join(refused)}; start it, or name another one"
        )


def restartable(context: SparkContext) -> bool:
    """Whether tidegate started a context, so that it may stop it and start another one with other settings."""
    conf = context.getConf()
    return bool(conf.get(_OURS) == "true" and conf.get("spark.submit.deployMode", "client") == "client")


def explained(context: SparkContext) -> str:
    """The address of Spark's UI and the settings made by tidegate, in one line."""
    conf = context.getConf()
    ours = [f"{key}={value}" for key, value in (_SETTINGS | _DAEMON).items() if conf.get(key) == value]
    page = f", its pages at {context.uiWebUrl}" if context.uiWebUrl else ""
    return f"spark {context.version} at {context.master} as {context.applicationId}{page}; set for tidegate: {', '.join(ours)}"


def settings_for(master: str, *, preload: bool) -> dict[str, str]:
    """Settings that the user has not set: fewer and quicker processes, and loopback addresses where they are enough."""
    settings = _SETTINGS | (_DAEMON if preload else {})
    if is_local(master):
        settings["spark.ui.enabled"] = "false"
    if on_loopback(master):
        settings["spark.driver.host"] = "localhost"
    return settings


def _start(master: str, name: str, *, preload: bool) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    # Settings of spark-submit, of its environment variable and of its files are unknown before Java runs.
    SparkContext._ensure_initialized()
    conf = SparkConf().setMaster(local_with_retries(master)).setAppName(name)
    for key, value in settings_for(master, preload=preload).items():
        conf.setIfMissing(key, value)
    # Spark's launcher always sets the first, so a setting by the user cannot be distinguished.
    conf.set("spark.ui.showConsoleProgress", "false").set(_OURS, "true")
    context = SparkContext(conf=conf)
    context.setLogLevel("ERROR")
    return context


def _forget_dead_java() -> bool:
    """Reset PySpark after its Java process has died: it would never start another one."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None or process.poll() is None:
        return False
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(
            OSError, AttributeError
        ):  # its remaining output is not needed; there may be none
            pipe.close()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    return True


@contextlib.contextmanager
def _our_python() -> Iterator[None]:
    """Executors on this machine run the Python that runs the driver, unless the environment names another."""
    before = os.environ.get("PYSPARK_PYTHON")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYSPARK_PYTHON"]


@contextlib.contextmanager
def _our_signals() -> Iterator[None]:
    """Restore our handler of Ctrl-C, which requests a last checkpoint: PySpark replaces it when a context starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
