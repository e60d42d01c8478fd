"""The same pipeline with its checkpoints elsewhere, started into an output directory that holds decided, pending files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.conftest import Job

pytestmark = pytest.mark.crash


@pytest.fixture
def killed(job: Job) -> Job:
    """A job that died when its third checkpoint was decided and not yet committed."""
    job.kill_at("jobmanager/checkpoint.after-swap@3")
    assert list(job.output.glob(".tidegate/totals.*/*.pending")), "nothing waits for its commit"
    return job


def test_another_home_is_refused_and_the_first_loses_nothing(killed: Job, tmp_path: Path) -> None:
    second = killed.run(state__checkpoints__dir=str(tmp_path / "elsewhere"))

    assert second.returncode != 0
    assert f"with checkpoints in file://{tmp_path / 'state'}; got checkpoints in" in second.stderr
    killed.result()
    assert killed.audit() == []


def test_a_finished_pipeline_keeps_its_claim_and_starts_again(job: Job, tmp_path: Path) -> None:
    job.result()

    assert job.run(state__checkpoints__dir=str(tmp_path / "elsewhere")).returncode != 0
    assert job.audit() == []
    job.result()


def test_checkpoints_that_were_moved_take_over_and_go_on(killed: Job, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    (tmp_path / "state").rename(moved)

    killed.settings["state.checkpoints.dir"] = str(moved)
    assert killed.run().returncode != 0
    killed.result(execution__take_over=True)
    assert killed.audit() == []
