"""Figures of a state backend on the page that Prometheus reads, while a job runs and at its end."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest

from tests.waiting import until
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment

METRICS = "state.backend.rocksdb.metrics."


@pytest.mark.parametrize("target", ["inline", pytest.param("embedded", marks=pytest.mark.processes)])
def test_figures_that_are_switched_on_are_served(
    tmp_path: Path, target: str, capfd: pytest.CaptureFixture[str]
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "pipeline.progress": "plain",
            "parallelism.default": 1,
            "metrics.http.port": 0,
            "state.checkpoints.dir": str(tmp_path),
            "state.backend.type": "rocksdb",
            f"{METRICS}block-cache-capacity": True,
            f"{METRICS}bytes-written": True,
        }
    )
    numbers = env.from_source(GeneratorSource(int, None, rate_per_second=500.0))
    numbers.key_by(lambda number: number % 7).reduce(max).uid("largest")
    client = env.execute_async("metrics")
    said: list[str] = []

    def served() -> dict[str, float]:
        said.append(capfd.readouterr().err)
        found = re.search(r"metrics at (http://\S+)/metrics", "".join(said))
        if found is None:
            return {}
        with urllib.request.urlopen(f"{found[1]}/metrics", timeout=10) as answer:
            page = answer.read().decode()
        lines = re.findall(
            r'^tidegate_user_metric\{.*name="largest\.0\.rocksdb\.(\S+)"\} (\S+)$', page, re.MULTILINE
        )
        return {name: float(value) for name, value in lines}

    until(lambda: served().get("block-cache-capacity", 0) > 0, job=client)
    assert served().keys() == {"block-cache-capacity", "bytes-written"}

    client.stop().result()
    result = client.get_job_execution_result().result()
    last = result.metrics["largest.0.rocksdb.block-cache-capacity"]
    assert isinstance(last, int), "a closed database tells the last figure"
    assert last > 0
