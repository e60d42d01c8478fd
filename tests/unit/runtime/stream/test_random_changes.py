"""A random program over random changes emits what a model of it does."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from tests.random_changes import model as model_module, program as program_module, steps
from tests.random_changes.generated import model, programs
from tests.random_changes.model import Change
from tests.random_changes.program import Described, build, read

pytestmark = pytest.mark.filterwarnings("ignore:iterate:DeprecationWarning")


def output(program: Described, target: str, parallelism: int) -> Counter[Change]:
    with tempfile.TemporaryDirectory() as directory:
        env = build(
            program,
            Path(directory, "out"),
            {
                "execution.target": target,
                "pipeline.progress": "off",
                "parallelism.default": parallelism,
                "restart-strategy.type": "none",
                "state.checkpoints.dir": str(Path(directory, "state")),
            },
        )
        env.execute("random")
        return read(Path(directory, "out"))


@settings(deadline=None)
@given(program=programs())
def test_a_random_program_emits_what_its_model_does(program: Described) -> None:
    assert output(program, "inline", 2) == model(program)
