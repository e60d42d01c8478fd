from __future__ import annotations

from importlib.metadata import version

import pytest

from tidegate import errors
from tidegate.runtime.cli.main import main
from tidegate.runtime.exit_codes import exit_code


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"tidegate {version('tidegate')}\n"


@pytest.mark.parametrize(
    "arguments",
    [[], ["fly"], ["run"], ["run", "job.py", "-D"]],
    ids=["nothing", "unknown", "no file", "no value"],
)
def test_bad_use_is_exit_code_two(
    arguments: list[str], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path_factory.mktemp("bad")
    (place / "job.py").write_text("")
    monkeypatch.chdir(place)

    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2


CODES = {
    "FencedError": 3,
    "CommitFailedError": 4,
    "CommitUnknownError": 4,
    "ConfigError": 2,
    "MissingExtraError": 2,
}


@pytest.mark.parametrize("name", errors.__all__)
def test_each_error_has_the_exit_code_that_scripts_go_by(name: str) -> None:
    assert exit_code(getattr(errors, name)("x")) == CODES.get(name, 1)
