"""`kill -9` of the process that runs a job, again while it recovers, and without what it would recover from."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("point", ["jobmanager/checkpoint.after-swap@3"])
def test_without_recovery_the_same_kill_writes_records_twice(job: Any, point: str) -> None:
    job.kill_at(point)
    shutil.rmtree(job.directory / "state")

    job.result()

    assert any("is there twice" in wrong for wrong in job.audit())


@pytest.mark.parametrize(
    "point",
    [
        "jobmanager/restore.before-settle",
        "jobmanager/restore.after-settle",
        "jobmanager/restore.before-sweep@2",
        "jobmanager/abort.before",
    ],
)
def test_killed_again_while_recovering_settles_on_the_third_start(job: Any, point: str) -> None:
    job.kill_at("jobmanager/checkpoint.after-swap@3")
    shutil.rmtree(job.witnesses)
    job.kill_at(point)
    unread = job.unread()

    result = job.result()

    assert job.audit() == []
    assert result["records"] == unread


def test_killed_between_two_commits_of_one_checkpoint_commits_the_other_on_the_next_start(job: Any) -> None:
    job.kill_at("jobmanager/checkpoint.after-swap@3")
    shutil.rmtree(job.witnesses)
    job.kill_at("jobmanager/commit.between")
    unread = job.unread()

    result = job.result()

    assert job.audit() == []
    assert result["records"] == unread


def test_workers_end_with_their_jobmanager(job: Any) -> None:
    job.kill_at("jobmanager/checkpoint.after-swap@3")

    # Its pipes are closed before they are quite gone.
    until(lambda: [path for path in _processes() if str(job.directory) in path], equals=[])


def test_what_a_killed_job_left_on_its_machine_is_swept_by_the_next_start(
    job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = job.directory / "disk"
    job.settings |= {
        "state.backend.type": "rocksdb",
        "state.backend.local-recovery": True,
        "state.backend.fs.memory-threshold": 0,
        "taskmanager.state.local.root-dirs": str(disk),
    }
    with tempfile.TemporaryDirectory() as temporary:  # a short path, since sockets go there too
        monkeypatch.setenv("TMPDIR", temporary)
        job.kill_at("jobmanager/checkpoint.after-swap@3")
        left = {path.name.split("-")[1] for root in (temporary, disk) for path in Path(root).iterdir()}
        assert left == {"state", "copies", "sockets"}

        job.result()

        assert job.audit() == []
        assert [*Path(temporary).iterdir(), *disk.iterdir()] == []


def _processes() -> list[str]:
    from pathlib import Path

    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(entry.read_text().replace("\0", " "))
        except OSError:
            continue
    return found
