"""The claim on an output directory: whose it is, what refuses it, and what another OS user sees."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.connectors.base import FileCommitter
from tidegate.connectors.collection import CollectSink
from tidegate.connectors.files import FileSink
from tidegate.connectors.files.rows import FileRows
from tidegate.connectors.spi import SupportsTakeOver
from tidegate.errors import ConfigError
from tidegate.ids import FencingTerm, PipelineId
from tidegate.twophase.naming import WorkName
from tidegate.twophase.spi import CommitterContext

HOME = "file:///state/first"


@pytest.fixture
def mine(committer_context: CommitterContext) -> CommitterContext:
    return replace(committer_context, home=HOME)


@pytest.fixture
def other(committer_context: CommitterContext) -> CommitterContext:
    return replace(committer_context, home="file:///state/second")


def note(directory: Path) -> Path:
    return directory / ".tidegate" / "orders.sink" / "claim"


def test_a_claim_is_a_file_beside_the_hidden_ones_and_nothing_else_is_left(
    tmp_path: Path, mine: CommitterContext
) -> None:
    FileCommitter(tmp_path / "out", mine).claim()

    assert [path.name for path in note(tmp_path / "out").parent.iterdir()] == ["claim"]
    assert note(tmp_path / "out").read_text() == (
        '{"v":1,"pipeline":"orders","uid":"sink","home":"file:///state/first"}'
    )


def test_a_pipeline_without_a_home_claims_nothing(
    tmp_path: Path, committer_context: CommitterContext
) -> None:
    FileCommitter(tmp_path, committer_context).claim()

    assert list(tmp_path.iterdir()) == []


def test_a_folder_from_before_there_were_claims_is_claimed_with_what_it_holds(
    tmp_path: Path, mine: CommitterContext
) -> None:
    work = note(tmp_path).with_name("1f.0-0-1-1.pending")
    work.parent.mkdir(parents=True)
    work.touch()

    FileCommitter(tmp_path, mine).claim()

    assert sorted(path.name for path in work.parent.iterdir()) == [work.name, "claim"]


def test_what_another_home_claims_is_refused_with_both_named(
    tmp_path: Path, mine: CommitterContext, other: CommitterContext
) -> None:
    FileCommitter(tmp_path, mine).claim()

    with pytest.raises(
        ConfigError,
        match=rf"^output '{tmp_path}': the hidden files of pipeline 'orders', operator 'sink', are claimed by a pipeline "
        rf"of the same name with checkpoints in {HOME}; got checkpoints in file:///state/second; use those "
        r"checkpoints, another pipeline\.id or another directory; or, if .* start with --take-over$",
    ):
        FileCommitter(tmp_path, other).claim()


def test_another_operator_of_the_same_pipeline_may_share_the_directory(
    tmp_path: Path, mine: CommitterContext, other: CommitterContext
) -> None:
    FileCommitter(tmp_path, mine).claim()

    FileCommitter(tmp_path, replace(other, pipeline=PipelineId("orders2"))).claim()


def test_a_claim_that_cannot_be_understood_is_refused_until_it_is_taken_over(
    tmp_path: Path, mine: CommitterContext
) -> None:
    FileCommitter(tmp_path, mine).claim()
    note(tmp_path).write_text('{"v":2}')

    with pytest.raises(
        ConfigError, match=r"cannot be read \(got b'{\"v\":2}'; expected version 1\); run the version"
    ):
        FileCommitter(tmp_path, mine).claim()
    FileCommitter(tmp_path, mine, take_over=True).claim()
    FileCommitter(tmp_path, mine).claim()


def test_work_of_the_pipeline_that_is_taken_over_goes_whatever_its_term(
    tmp_path: Path, mine: CommitterContext, other: CommitterContext
) -> None:
    FileCommitter(tmp_path, mine).claim()
    name = WorkName("2e", 0, 0, 7, "1", term=FencingTerm(5)).build()
    note(tmp_path).with_name(name).touch()

    assert FileCommitter(tmp_path, other, take_over=True).abort_except([]) == 1
    assert [path.name for path in note(tmp_path).parent.iterdir()] == ["claim"]


def test_a_claim_that_this_user_may_not_read_is_refused(tmp_path: Path, mine: CommitterContext) -> None:
    FileCommitter(tmp_path, mine).claim()
    note(tmp_path).chmod(0)
    program = f"""
import os
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.base import FileCommitter
from tidegate.errors import ConfigError
from tidegate.twophase.spi import CommitterContext

if os.getuid() == 0:
    os.setuid(65534)
try:
    FileCommitter({str(tmp_path)!r}, CommitterContext("orders", "sink", "1f", SYSTEM_CLOCK, "file:///other")).claim()
except ConfigError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout.startswith(f"the claim of output '{tmp_path}' cannot be read ([Errno 13]"), done.stderr
    assert (
        "another OS user wrote it; run as that user, grant this user read and write permission" in done.stdout
    )


@pytest.mark.parametrize(
    "sink",
    [FileSink("/data/out"), CollectSink("/data/out"), FileRows().sink({"path": "/data/out"}, "0", ["id"])],
    ids=["files", "collection", "rows"],
)
def test_every_sink_of_files_can_take_over(sink: FileSink | CollectSink) -> None:
    assert isinstance(sink, SupportsTakeOver)
    assert type(sink.taking_over()) is type(sink)


def test_a_query_takes_over_by_an_option() -> None:
    assert FileRows().sink({"path": "/data/out", "take_over": "true"}, "0", ["id"]).options.take_over
