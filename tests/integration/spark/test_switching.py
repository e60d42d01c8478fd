"""A pipeline moves between executors: what one of them has decided the other goes on from."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.integration.spark.conftest import SPARK_ONLY
from tidegate.errors import ConfigError

pytestmark = [pytest.mark.spark, SPARK_ONLY]


@pytest.mark.crash
@pytest.mark.parametrize(("backend", "parallelism"), [("heap", 2), ("rocksdb", 3)])
@pytest.mark.usefixtures("spark")
def test_what_embedded_began_spark_goes_on_with(job: Any, backend: str, parallelism: int) -> None:
    job.count, job.rate = 3_000, 3_000
    job.kill_at("checkpoint.after-settled@2", target="embedded")
    assert job.audit() != []
    job.rate, unread = 0, job.unread()
    job.settings |= {
        "state.backend.type": backend,
        "parallelism.default": parallelism,
        "execution.spark.epoch-records": 1_000,
    }

    result = job.run()

    assert job.audit() == []
    assert result.records == unread < job.count


@pytest.mark.crash
@pytest.mark.usefixtures("spark")
def test_spark_works_off_what_a_checkpoint_on_embedded_has_overtaken(job: Any) -> None:
    job.count = 100_000
    job.settings |= {"execution.checkpointing.unaligned.enabled": True}
    job.kill_at("checkpoint.after-settled@2", target="embedded")
    (waiting,) = [operator.in_flight for operator in job.newest().operators if operator.in_flight]
    assert waiting, "records were on their way to the totals"
    job.settings |= {"parallelism.default": 3, "execution.spark.epoch-records": 50_000}

    job.run()

    assert job.audit() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["sigterm", "ctrl-c"])
def test_a_signal_stops_spark_with_a_checkpoint_and_embedded_goes_on(
    job: Any, number: signal.Signals
) -> None:
    job.count = 60_000
    job.settings |= {"pipeline.progress": "json", "execution.spark.epoch-records": 500}
    with job.started() as process:
        job.await_settled(process, 2)

        with pytest.raises(
            ConfigError, match=rf"already running as run .* process {process.pid} .*stop it first"
        ):
            job.run()
        process.send_signal(number)
        said, _ = process.communicate(timeout=120)
    stopped, unread = json.loads(said), job.unread()
    assert (process.returncode, stopped["state"]) == (0, "stopped")
    assert stopped["records"] == job.count - unread
    assert 0 < unread < job.count
    job.settings |= {"state.backend.type": "rocksdb", "parallelism.default": 3}

    result = job.run("embedded")

    assert job.audit() == []
    assert (result.state, result.records) == ("finished", unread)
    assert result.resumed_from == stopped["checkpoint"]
