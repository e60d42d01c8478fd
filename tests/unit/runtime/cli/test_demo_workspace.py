from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import ConfigError
from tidegate.runtime.cli.demo.workspace import claim
from tidegate.runtime.cli.main import main


def test_a_new_directory_is_made_and_emptied_by_the_next_demo(tmp_path: Path) -> None:
    with claim(tmp_path / "a" / "b") as workspace:
        (workspace.root / "output").mkdir()
        (workspace.root / "output" / "part-1.jsonl").touch()
        workspace.log.touch()
        (workspace.root / "link").symlink_to(tmp_path)

    with claim(tmp_path / "a" / "b") as again:
        assert [entry.name for entry in again.root.iterdir()] == [".tidegate-demo"]
    assert tmp_path.is_dir()


def test_files_that_no_demo_made_are_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.touch()

    with (
        pytest.raises(
            ConfigError, match="holds files that the demo did not create; expected a new or empty directory"
        ),
        claim(tmp_path),
    ):
        pass

    assert precious.exists()


def test_two_demos_cannot_share_a_directory(tmp_path: Path) -> None:
    with (
        claim(tmp_path / "demo"),
        pytest.raises(ConfigError, match=r"another demo runs in .*demo; name another directory"),
        claim(tmp_path / "demo"),
    ):
        pass


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with (
        pytest.raises(ConfigError, match=r"file cannot be used .*; expected a writable directory"),
        claim(tmp_path / "file"),
    ):
        pass


def test_too_few_records_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--records", "10", "--directory", str(tmp_path / "demo")])

    assert code == 2
    assert (
        "--records is 10; expected at least 1000, because the demo would end too soon"
        in capsys.readouterr().err
    )
