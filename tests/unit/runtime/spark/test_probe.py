"""What is said of executors that cannot run programs; that they are looked at is tried on a cluster."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Any

import pyspark
import pytest

from tidegate.errors import ConfigError, UnavailableError
from tidegate.runtime.spark import probe
from tidegate.runtime.spark.causes import Cause

OURS = {name: metadata.version(name) for name in ("tidegate", "pyspark")}
FIT: dict[str, Any] = {
    "task": 0,
    "host": "worker-3",
    "python": "/usr/bin/python3",
    "lacks": None,
    "storage": None,
    "versions": OURS,
}


def test_an_executor_with_the_same_versions_is_fit() -> None:
    probe._judge(FIT, "s3://state")


def test_a_shipped_tidegate_without_a_version_is_taken_for_ours() -> None:
    probe._judge({**FIT, "versions": {**OURS, "tidegate": None}}, "s3://state")


@pytest.mark.parametrize("name", ["tidegate", "pyspark"])
def test_another_version_is_refused_with_the_name_of_the_machine(name: str) -> None:
    found = {**FIT, "versions": {**OURS, name: "0.0.1"}}

    with pytest.raises(
        ConfigError, match=rf"worker-3 .* has {name} 0\.0\.1; expected {re.escape(OURS[name])}, as the driver"
    ):
        probe._judge(found, "s3://state")


def test_a_missing_tidegate_is_refused_with_what_to_do() -> None:
    found = {**FIT, "lacks": "ModuleNotFoundError: No module named 'msgspec'"}

    with pytest.raises(
        ConfigError,
        match=r"worker-3 .* cannot run tidegate: .*'msgspec'; install tidegate\[spark\] .*or ship",
    ):
        probe._judge(found, "s3://state")


def test_a_storage_that_an_executor_cannot_use_is_refused() -> None:
    found = {**FIT, "storage": "FileNotFoundError: /state"}

    with pytest.raises(
        ConfigError, match=r"worker-3 cannot use the checkpoint storage /state: FileNotFound.*s3://"
    ):
        probe._judge(found, "/state")


class Given:
    """A context of which only the master is known."""

    master = "spark://master-1:7077"


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (
            "Cannot call methods on a stopped SparkContext.",
            rf"spark at spark://master-1:7077 accepted no program for a minute, as a master of another .* PySpark {pyspark.__version__}",
        ),
        ("Job aborted", "spark could not probe its executors: Job aborted"),
    ],
    ids=["another Spark", "anything"],
)
def test_a_cluster_at_which_nobody_can_look_is_named(cause: str, said: str) -> None:
    context: Any = Given()

    with pytest.raises(UnavailableError, match=said):
        raise probe._blind(context, Cause(cause, ""))


def test_another_python_is_refused_with_both_versions_though_spark_does_not_say_where() -> None:
    context: Any = Given()
    said = "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.8 than that in driver: 3"

    with pytest.raises(
        ConfigError,
        match=r"executors on a machine that Spark does not name run Python 3\.8; expected 3\.\d+, as",
    ):
        raise probe._blind(context, Cause("", said))
