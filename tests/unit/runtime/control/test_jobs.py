from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from tidegate.errors import ConfigError
from tidegate.ids import FencingTerm, PipelineId, RunId
from tidegate.runtime.control.jobs import Job, find_job, known_jobs, noted
from tidegate.twophase.process import this_process


def job(run: str, pipeline: str = "orders", started_ms: int = 0) -> Job:
    process = this_process(FencingTerm(0), RunId(run))
    return Job(
        RunId(run), pipeline, PipelineId(pipeline), "inline", "file:///s", started_ms, process, "/s", "t"
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "tidegate" / ".jobs"


def test_a_run_is_known_while_it_lives_and_only_its_owner_can_read_the_note(home: Path) -> None:
    with noted(job("ab12")):
        assert known_jobs() == [job("ab12")]
        assert stat.S_IMODE((home / "ab12.json").stat().st_mode) == 0o600
        assert stat.S_IMODE(home.stat().st_mode) == 0o700

    assert known_jobs() == []
    assert list(home.iterdir()) == []


def test_the_note_of_a_process_that_is_gone_is_removed(home: Path) -> None:
    left = job("dead")
    left = msgspec.structs.replace(left, process=msgspec.structs.replace(left.process, start_time=1))
    home.mkdir(parents=True)
    (home / "dead.json").write_bytes(msgspec.json.encode(left))
    (home / "torn.json").write_bytes(b"{")

    assert known_jobs() == []
    assert [path.name for path in home.iterdir()] == ["torn.json"], "nobody knows whose that is"


def test_the_oldest_comes_first(home: Path) -> None:
    with noted(job("b", started_ms=2)), noted(job("c", started_ms=1)):
        assert [each.run for each in known_jobs()] == ["c", "b"]


@pytest.mark.parametrize("which", ["ab12", "ab", "orders"])
def test_a_run_is_found_by_its_id_the_beginning_of_it_or_its_pipeline(home: Path, which: str) -> None:
    with noted(job("ab12")), noted(job("cd34", "payments")):
        assert find_job(which).run == "ab12"


@pytest.mark.parametrize(
    ("which", "message"),
    [
        (
            "zz",
            r"this user runs no job 'zz' on this machine; running jobs: ab12 \(orders\), ab34 \(orders\)",
        ),
        (
            "ab",
            r"'ab' matches more than one job: ab12 \(orders\), ab34 \(orders\); give the id of one of them",
        ),
        ("orders", "'orders' matches more than one job"),
        ("", "this user runs no job ''"),
    ],
    ids=["none", "two by id", "two by pipeline", "nothing"],
)
def test_what_is_no_single_run_is_refused_with_those_there_are(home: Path, which: str, message: str) -> None:
    with noted(job("ab12")), noted(job("ab34")), pytest.raises(ConfigError, match=message):
        find_job(which)
