"""What is sent of files that a program registers; that it arrives is tried on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import ConfigError
from tidegate.runtime.program_resources import CachedFile
from tidegate.runtime.spark.files import SentFiles


@dataclass
class Broadcast:
    """As Spark makes one, which is there until it is destroyed."""

    value: Any

    def destroy(self) -> None:
        self.value = None


class Context:
    """Where broadcasts begin."""

    def broadcast(self, value: Any) -> Broadcast:
        return Broadcast(value)


def sent(path: Path) -> SentFiles:
    context: Any = Context()
    return SentFiles(context, {"words": CachedFile(str(path))})


def test_a_file_arrives_as_it_was_when_the_attempt_began(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("before")
    files = sent(tmp_path / "words")
    (tmp_path / "words").write_text("after")

    files.sent["words"].copy_to(tmp_path / "copy")

    assert (tmp_path / "copy").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "words"]


def test_a_directory_arrives_with_everything_in_it_and_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "model" / "layers").mkdir(parents=True)
    (tmp_path / "model" / "empty").mkdir()
    (tmp_path / "model" / "layers" / "one").write_bytes(b"\0\1")
    (tmp_path / "run.sh").write_text("exit 0")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "model" / "run").symlink_to(tmp_path / "run.sh")
    files = sent(tmp_path / "model")

    files.sent["words"].copy_to(tmp_path / "copy")

    copy = tmp_path / "copy"
    assert sorted(str(path.relative_to(copy)) for path in copy.rglob("*")) == [
        "empty",
        "layers",
        "layers/one",
        "run",
    ]
    assert (copy / "layers" / "one").read_bytes() == b"\0\1"
    assert (copy / "run").read_text() == "exit 0"
    assert not (copy / "run").is_symlink()
    assert (copy / "run").stat().st_mode & 0o777 == 0o755


def test_spark_forgets_what_was_sent(tmp_path: Path) -> None:
    (tmp_path / "words").touch()
    files = sent(tmp_path / "words")
    (file,) = files.sent.values()

    files.close()

    assert file.content.value is None  # type: ignore[attr-defined] # a file that was sent has one


def test_a_file_that_is_gone_since_it_was_registered_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"/words registered as 'words' cannot be sent: .*No such file"):
        sent(tmp_path / "words")
