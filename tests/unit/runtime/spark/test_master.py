"""Which URLs are those of masters, and how a local one is started."""

from __future__ import annotations

import os

import pytest

from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import ConfigError
from tidegate.runtime.spark.master import (
    is_local,
    is_master,
    local_with_retries,
    on_loopback,
    tasks_at_once,
)


@pytest.mark.parametrize(
    "target",
    [
        "local",
        "local[*]",
        "local[2]",
        "local[2,4]",
        "spark://h:7077",
        "spark://a:1,b:2",
        "yarn",
        "k8s://https://h:6443",
    ],
)
def test_masters_are_known(target: str) -> None:
    assert is_master(target)


@pytest.mark.parametrize(
    "target",
    [
        "local[two]",
        "local[2",
        "spark://host",
        "mesos://h:5050",
        "sc://h:15002",
        "yarn-client",
        "localhost",
        "k8s://",
    ],
)
def test_what_is_no_master_is_refused_with_those_that_are(target: str) -> None:
    assert not is_master(target)
    env = StreamExecutionEnvironment.on_spark(target, {"pipeline.progress": "off"})
    env.from_collection([1]).print()

    with pytest.raises(
        ConfigError, match=r"execution.target is '.*'.*; expected embedded, inline or .*local\[\*\].*k8s://"
    ):
        env.execute("nowhere")


@pytest.mark.parametrize(
    ("master", "with_retries"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3]", "local[3,4]"),
        ("local[3,1]", "local[3,1]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_only_local_masters_without_retries_get_them(master: str, with_retries: str) -> None:
    assert local_with_retries(master) == with_retries


@pytest.mark.parametrize(
    ("master", "settings", "tasks"),
    [
        ("local", {}, 1),
        ("local[6,4]", {}, 6),
        ("local[6]", {"spark.task.cpus": "2"}, 3),
        ("local[1]", {"spark.task.cpus": "2"}, 1),
        ("local[*]", {}, os.cpu_count()),
        ("spark://host:7077", {}, os.cpu_count()),
        ("spark://host:7077", {"spark.executor.cores": "5", "spark.task.cpus": "2"}, 2),
        ("yarn", {}, 1),
        ("k8s://https://h:6443", {"spark.executor.cores": "4"}, 4),
    ],
)
def test_an_executor_works_on_as_many_tasks_at_once_as_its_cores_allow(
    master: str, settings: dict[str, str], tasks: int
) -> None:
    assert tasks_at_once(master, settings.get) == tasks


def test_a_master_on_this_machine_is_near_and_not_local() -> None:
    assert on_loopback("spark://127.0.0.1:7077")
    assert not is_local("spark://127.0.0.1:7077")
    assert not on_loopback("spark://127-0-0-1.example.org:7077")
