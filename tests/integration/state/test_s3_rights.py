"""What `tidegate check` finds out about buckets: each right that is missing by its name, and nothing is left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tidegate.backends.storage import open_storage
from tidegate.runtime.cli.main import main
from tidegate.testing.services import S3Service

pytestmark = pytest.mark.service


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")


PROGRAM = """
from tidegate import FileSink, GeneratorSource, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_source(GeneratorSource(int, count=1)).uid("numbers")
numbers.sink_to(FileSink({out!r})).uid("out")
env.execute("rights")
"""


def checked(url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """What is found out of a program with its checkpoints and its output in a bucket."""
    program = folder / "job.py"
    program.write_text(PROGRAM.format(out=url.replace("/state?", "/out?")))
    main(["check", "--json", "-D", f"state.checkpoints.dir={url}", str(program)])
    findings = json.loads(capsys.readouterr().out)["findings"]
    return [
        each
        for each in findings
        if each["subject"] in ("storage", "bucket")
        or (each["subject"] == "sink 'out'" and each["verdict"] == "problem")
    ]


def test_a_bucket_that_may_be_used_is_said_to_be_and_is_left_as_it_was(
    s3: S3Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = s3.new_bucket()

    found = checked(url, tmp_path, capsys)

    assert [each["verdict"] for each in found] == ["ok", "ok"]
    assert found[0]["found"] == f"{url} can be written, read, listed and deleted from"
    assert "/out?" in found[1]["found"]
    assert open_storage(url.replace("/state?", "?")).blobs.list("") == []


def test_a_bucket_that_does_not_exist_is_a_problem_of_storage_and_sink(
    s3: S3Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"s3://none/state?endpoint={s3.endpoint}"

    storage, sink = checked(url, tmp_path, capsys)

    assert [storage["verdict"], sink["verdict"]] == ["problem", "problem"]
    assert "none/state" in storage["found"]
    assert sink["subject"] == "sink 'out'"
    assert sink["found"] == "bucket 'none' does not exist; create it or name another one"


@pytest.mark.parametrize(
    ("right", "what", "allow"),
    [
        ("list", "listed", "s3:ListBucket"),
        ("write", "written", "s3:PutObject"),
        ("read", "read", "s3:GetObject"),
        ("delete", "deleted from", "s3:DeleteObject"),
    ],
    ids=["list", "write", "read", "delete"],
)
def test_a_right_that_is_missing_is_named(
    right: str, what: str, allow: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with S3Service(denied=[right]) as s3:
        url = s3.new_bucket()

        storage, bucket = checked(url, tmp_path, capsys)

    assert [storage["verdict"], bucket["verdict"]] == ["problem", "problem"]
    assert f" cannot be {what}: " in bucket["found"]
    assert bucket["remedy"] == f"allow {allow}"
    assert urlsplit(url).netloc in storage["found"]
