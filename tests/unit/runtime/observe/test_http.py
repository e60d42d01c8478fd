from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request

import pytest

from tidegate.clock import ManualClock
from tidegate.errors import ConfigError
from tidegate.ids import PipelineId, RunId
from tidegate.runtime.observe.http import Subject, serving
from tidegate.runtime.status import RunStatus

SUBJECT = Subject("orders", PipelineId("orders"), RunId("ab12"), "inline")


def test_metrics_and_status_are_of_the_latest_snapshot() -> None:
    clock = ManualClock()
    status = RunStatus(clock)
    with serving(SUBJECT, lambda: status.latest, ("127.0.0.1", 0)) as url:
        status.progress(0, 42)
        clock.advance(1_000)
        status.fold()
        with urllib.request.urlopen(f"{url}/metrics") as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            text = answer.read().decode()
        with urllib.request.urlopen(f"{url}/status") as answer:
            told = json.load(answer)

    assert 'tidegate_records_read_total{job="orders",pipeline="orders",run="ab12"} 42\n' in text
    assert (told["job"], told["run"], told["records"], told["state"]) == ("orders", "ab12", 42, "created")


def test_other_pages_are_not_there_and_nobody_can_post() -> None:
    status = RunStatus(ManualClock())
    with serving(SUBJECT, lambda: status.latest, ("127.0.0.1", 0)) as url:
        with pytest.raises(urllib.error.HTTPError, match="404") as missing:
            urllib.request.urlopen(f"{url}/jobs")
        assert missing.value.read() == b"not found; the pages are /metrics and /status\n"
        missing.value.close()
        with pytest.raises(urllib.error.HTTPError, match="501") as refused:
            urllib.request.urlopen(f"{url}/metrics", data=b"")
        refused.value.close()


def test_it_listens_on_loopback_and_is_gone_afterwards() -> None:
    status = RunStatus(ManualClock())
    with serving(SUBJECT, lambda: status.latest, ("127.0.0.1", 0)) as url:
        matched = re.fullmatch(r"http://127\.0\.0\.1:(\d+)", url)
        assert matched is not None
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(matched[1])), timeout=5)


def test_a_port_that_is_taken_is_named() -> None:
    status = RunStatus(ManualClock())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(
                ConfigError, match=rf"cannot serve metrics at 127\.0\.0\.1:{port}: .*choose another"
            ),
            serving(SUBJECT, lambda: status.latest, ("127.0.0.1", port)),
        ):
            pass
