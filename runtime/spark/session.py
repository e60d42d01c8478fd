"""The connection to Spark: the one that is active, or one of our own for as long as an attempt lasts."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError, MissingExtraError, UnavailableError

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["OLDEST_JAVA", "check_java", "check_spark", "local_with_retries", "spark_context"]

OLDEST_JAVA = 17
_REMEDY = (
    f"install Java {OLDEST_JAVA} or newer (apt-get install openjdk-17-jre-headless) or let JAVA_HOME name one"
)

_SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "tidegate.runtime.spark.daemon",
    "spark.python.task.killTimeout": "500ms",
    "spark.speculation": "false",
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}


def check_spark(environ: Mapping[str, str]) -> None:
    """Make sure that Spark can be started, before anything is touched.

    Raises:
        MissingExtraError: PySpark is not installed.
        ConfigError: there is no Java that it runs on.
    """
    try:
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
def spark_context(master: str, name: str) -> Iterator[SparkContext]:
    """The active context, or a new one that is stopped in the end.

    Raises:
        UnavailableError: Spark did not start.
    """
    from pyspark import SparkContext

    _forget_dead_java()
    active = SparkContext._active_spark_context
    if active is not None:
        yield active
        return
    with _our_python(), _our_signals():
        try:
            context = _start(master, name)
        except Exception as error:
            raise UnavailableError(f"spark at {master} did not start: {error}") from error
    try:
        yield context
    finally:
        if not _forget_dead_java():
            with contextlib.suppress(Exception):  # Java may die at this moment; the next start finds out
                context.stop()


def local_with_retries(master: str) -> str:
    """A local master that repeats tasks that died, as every cluster does.

    Example:
        >>> local_with_retries("local[2]"), local_with_retries("spark://host:7077")
        ('local[2,4]', 'spark://host:7077')
    """
    threads = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{threads[1] or 1},4]" if threads else master


def _start(master: str, name: str) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster(local_with_retries(master)).setAppName(name)
    for key, value in _SETTINGS.items():
        conf.setIfMissing(key, value)
    if master.startswith("local"):
        conf.setIfMissing("spark.ui.enabled", "false")
        conf.setIfMissing("spark.driver.host", "localhost")
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
