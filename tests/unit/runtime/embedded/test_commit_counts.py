"""What an attempt remembers of the commits of its checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.runtime.embedded.attempt import Attempt


def test_checkpoints_that_are_settled_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[Attempt] = []
    made = Attempt.__init__

    def remembered(attempt: Attempt, *args: Any, **named: Any) -> None:
        attempts.append(attempt)
        made(attempt, *args, **named)

    monkeypatch.setattr(Attempt, "__init__", remembered)
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "parallelism.default": 1,
            "execution.checkpointing.interval": "20 ms",
        }
    )
    env.from_source(GeneratorSource(int, count=50, rate_per_second=200.0)).sink_to(FileSink(tmp_path / "out"))
    result = env.execute()

    (attempt,) = attempts
    assert result.state == "finished"
    assert not attempt._performer._retries.refused
