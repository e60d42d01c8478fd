"""Spark cluster service for tests and experiments: a standalone master and workers, from the pip-installed PySpark.

Everything listens on loopback and writes below private directories. The Python of executors is the driver's.

Example:
    with SparkService(workers=2) as spark:
        env = StreamExecutionEnvironment.on_spark(spark.address)
"""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from tidegate.clock import SYSTEM_CLOCK, Clock
from tidegate.errors import ConfigError, MissingExtraError
from tidegate.testing.services.java import find_java
from tidegate.testing.services.process import LOOPBACK, Port
from tidegate.testing.services.service import Service

__all__ = ["SparkService", "SparkWorkerService"]

_MEMORY = "2g"
"""That a worker gives to executors; those of one program take 1 GB unless it says otherwise."""


class SparkService(Service):
    """A master and its workers.

    Raises:
        ConfigError: there is not at least one worker with one core.
    """

    name = "spark"

    def __init__(
        self, *, port: int = 0, workers: int = 2, cores: int = 1, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(port=port, clock=clock)
        if workers < 1 or cores < 1:
            raise ConfigError(f"got {workers} Spark workers with {cores} cores; expected at least 1 of each")
        hosts = itertools.cycle((LOOPBACK, "localhost"))
        self.workers = [SparkWorkerService(self, next(hosts), cores, clock) for _ in range(workers)]
        """In no order; each can be killed and restarted. Spark takes them for two machines."""
        self._pages: Port | None = None

    @property
    def address(self) -> str:
        """What `execution.target` wants."""
        return f"spark://{LOOPBACK}:{self.port}"

    @property
    def usage(self) -> str:
        """A program that runs on it."""
        return (
            "from tidegate.datastream import StreamExecutionEnvironment\n"
            f'env = StreamExecutionEnvironment.on_spark("{self.address}")\n'
            'words = env.from_collection(["to", "be", "or", "not", "to", "be"])\n'
            "print(sorted(words.key_by(lambda word: word).map(str.upper).execute_and_collect()))\n"
        )

    @property
    def page(self) -> str:
        """The master's own page for people."""
        if self._pages is None:
            raise self._not_started()
        return f"http://{LOOPBACK}:{self._pages.number}"

    def start(self) -> Self:
        """Start the master, then its workers; raises as for any service."""
        super().start()
        try:
            with ThreadPoolExecutor(len(self.workers)) as pool:
                list(pool.map(SparkWorkerService.start, self.workers))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop all processes and remove their files; idempotent."""
        for worker in self.workers:
            worker.stop()
        super().stop()
        if self._pages is not None:
            self._pages.release()
            self._pages = None

    def state(self) -> dict[str, Any]:
        """What the master says of workers and programs."""
        if self._pages is None:
            raise self._not_started()
        with closing(http.client.HTTPConnection(LOOPBACK, self._pages.number, timeout=1)) as connection:
            connection.request("GET", "/json/")
            state: dict[str, Any] = json.loads(connection.getresponse().read())
        return state

    def _check(self) -> None:
        _spark_home()
        find_java()

    def _prepare(self) -> None:
        self._pages = Port()

    def _command(self) -> Sequence[str]:
        assert self._pages is not None
        where = ("--host", LOOPBACK, "--port", str(self.port), "--webui-port", str(self._pages.number))
        return _spark_class(self.directory, "org.apache.spark.deploy.master.Master", *where)

    def _answers(self) -> bool:
        try:
            return str(self.state()["status"]) == "ALIVE"
        except (OSError, http.client.HTTPException, ValueError):
            return False


class SparkWorkerService(Service):
    """One worker of a cluster, which starts executors; those end with it."""

    name = "spark-worker"

    def __init__(self, cluster: SparkService, host: str, cores: int, clock: Clock) -> None:
        super().__init__(clock=clock)
        self._cluster = cluster
        self._host = host
        self._cores = cores

    @property
    def usage(self) -> str:
        """That of the cluster."""
        return self._cluster.usage

    def _check(self) -> None:
        """The cluster has looked."""

    def _prepare(self) -> None:
        """Nothing."""

    def _command(self) -> Sequence[str]:
        where = ("--host", self._host, "--port", str(self.port), "--webui-port", "0")
        gives = ("--cores", str(self._cores), "--memory", _MEMORY, "--work-dir", str(self.directory / "work"))
        worker = "org.apache.spark.deploy.worker.Worker"
        return _spark_class(self.directory, worker, *where, *gives, self._cluster.address)

    def _answers(self) -> bool:
        try:
            workers = self._cluster.state()["workers"]
        except (OSError, http.client.HTTPException, ValueError):
            return False
        return any(each["port"] == self.port and each["state"] == "ALIVE" for each in workers)


def _spark_home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingExtraError("spark support is not installed; run: pip install 'tidegate[spark]'")
    return Path(spec.origin).parent


def _spark_class(directory: Path, main: str, *arguments: str) -> list[str]:
    """A Java program of Spark, with settings and directories of its own whatever the environment says."""
    home = _spark_home()
    settings = {
        "SPARK_HOME": home,
        "SPARK_CONF_DIR": directory,
        "SPARK_LOCAL_DIRS": directory / "local",
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    assigned = (f"{key}={value}" for key, value in settings.items())
    return ["env", *assigned, "bash", str(home / "bin" / "spark-class"), main, *arguments]
