"""The connection to Spark: the one that is active, or one of our own for as long as an attempt lasts."""

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
    f"install Java {OLDEST_JAVA} or newer (apt-get install openjdk-17-jre-headless) or let JAVA_HOME name one"
)

_REACH_S = 5.0
_OURS = "spark.tidegate.started"
"""Tells a context that tidegate started from one of the user's."""
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
    """Make sure that Spark can be started, before anything is touched.

    Raises:
        MissingExtraError: PySpark is not installed.
        ConfigError: this process speaks to Spark from outside, or there is no Java that it runs on.
    """
    try:
        from pyspark.sql.utils import is_remote

        if is_remote():
            raise ConfigError(
                "this process is connected by Spark Connect, as on serverless clusters, and cannot start jobs from functions; "
                "expected a classic session: leave SPARK_REMOTE out and start the program with spark-submit, or with "
                "tidegate run --on and the URL of a master; or set execution.target to embedded, which needs no Spark"
            )
        from pyspark import SparkContext
    except ImportError as error:
        raise MissingExtraError(
            "spark support is not installed; run: pip install 'tidegate[spark]'"
        ) from error
    if SparkContext._active_spark_context is None:  # the only way to ask without starting one
        check_java(environ)


def check_java(environ: Mapping[str, str]) -> None:
    """Look at the Java that Spark would take.

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
    """The active context, or a new one that is stopped in the end; `preload` if all executors can import tidegate.

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
            with contextlib.suppress(Exception):  # Java may die at this moment; the next start finds out
                context.stop()


def reach(master: str) -> None:
    """Make sure that somebody answers where a standalone master should be: Spark itself would try for a minute.

    Raises:
        UnavailableError: nobody does.
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
    """Whether a context is ours to stop, so that another one can be started with other settings."""
    conf = context.getConf()
    return bool(conf.get(_OURS) == "true" and conf.get("spark.submit.deployMode", "client") == "client")


def explained(context: SparkContext) -> str:
    """Where the job can be seen in Spark, and which settings are those of tidegate, in one line."""
    conf = context.getConf()
    ours = [f"{key}={value}" for key, value in (_SETTINGS | _DAEMON).items() if conf.get(key) == value]
    page = f", its pages at {context.uiWebUrl}" if context.uiWebUrl else ""
    return f"spark {context.version} at {context.master} as {context.applicationId}{page}; set for tidegate: {', '.join(ours)}"


def settings_for(master: str, *, preload: bool) -> dict[str, str]:
    """What is set unless the user has: fewer and quicker processes, and addresses of this machine where that is enough."""
    settings = _SETTINGS | (_DAEMON if preload else {})
    if is_local(master):
        settings["spark.ui.enabled"] = "false"
    if on_loopback(master):
        settings["spark.driver.host"] = "localhost"
    return settings


def _start(master: str, name: str, *, preload: bool) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    # Before Java runs, nobody knows what spark-submit, its environment variable or its files have set.
    SparkContext._ensure_initialized()
    conf = SparkConf().setMaster(local_with_retries(master)).setAppName(name)
    for key, value in settings_for(master, preload=preload).items():
        conf.setIfMissing(key, value)
    # Spark's launcher always sets the first, so whether the user has cannot be told.
    conf.set("spark.ui.showConsoleProgress", "false").set(_OURS, "true")
    context = SparkContext(conf=conf)
    context.setLogLevel("ERROR")
    return context


def _forget_dead_java() -> bool:
    """PySpark holds on to a Java process that has died and would never start another one."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None or process.poll() is None:
        return False
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(
            OSError, AttributeError
        ):  # nobody reads what is left in it; there may be none
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
    """PySpark takes Ctrl-C for itself when a context starts; here it asks for a last checkpoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
