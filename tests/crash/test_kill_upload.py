"""`kill -9` of a worker while it uploads a new base of its state, or right after, before any checkpoint refers to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.backends.storage import open_storage
from tidegate.runtime.checkpoint.archive import Archive
from tidegate.runtime.checkpoint.manifest import files_of
from tidegate.runtime.checkpoint.record import Record

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
@pytest.mark.parametrize("point", ["base.before-upload", "base.after-upload"])
def test_killed_upload_costs_nothing_and_leaves_nothing(job: Any, point: str, backend: str) -> None:
    at = f"taskmanager-1/{point}"
    job.rate = SLOW

    done = job.run_into(at, state__backend__type=backend, **FREQUENT)

    assert done.returncode == 0, done.stderr
    assert job.reached(at), f"{at} was never passed"
    assert "killed by SIGKILL" in done.stderr
    assert job.audit() == []
    assert left_over(job.directory / "state") == set()


@pytest.mark.parametrize("backend", ["filesystem", "rocksdb"])
def test_bases_of_a_job_that_ends_by_itself_are_all_referred_to(job: Any, backend: str) -> None:
    job.rate = SLOW

    job.result(state__backend__type=backend, **FREQUENT)

    newest = job.newest()
    (keyed,) = [operator.keyed for operator in newest.operators if operator.keyed]
    assert any(handle.base is not None for handle in keyed)
    assert left_over(job.directory / "state") == set()


# Enough checkpoints for a base, and enough time for them on a busy machine.
FREQUENT = {"execution.checkpointing.interval": "5 ms", "state.backend.fs.memory-threshold": 0}
SLOW = 1_000.0


def left_over(root: Path) -> set[str]:
    """Files below the state root that no retained checkpoint refers to."""
    storage = open_storage(root)
    assert storage.decisions is not None
    decision = storage.decisions.read("totals/latest")
    assert decision is not None
    archive = Archive(storage.blobs, storage.decisions)
    retained = msgspec.msgpack.decode(decision.data, type=Record).retained
    needed = set().union(*(files_of(archive.load(known)) for known in retained))
    there = {path.relative_to(root).as_posix() for path in root.glob("*/shared/*")}
    assert needed <= there
    return there - needed
