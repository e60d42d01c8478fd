from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.runtime.cli.main import _parser, main
from tidegate.runtime.cli.run import again

Job = Callable[[str], Path]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Writes a program; what `tidegate run` does to the interpreter is undone."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> Path:
        path = tmp_path / "job.py"
        path.write_text(text)
        return path

    return write


def test_a_program_is_run_as_the_main_module_with_its_own_arguments(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job("import sys\nprint(__name__, __file__, sys.argv[1:])\n")

    assert main(["run", str(path), "--input", "x", "-D", "mine"]) == 0
    assert capsys.readouterr().out == f"__main__ {path} ['--input', 'x', '-D', 'mine']\n"


def test_modules_beside_the_program_are_found(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    path = job("import beside_the_job\nprint(beside_the_job.NAME)\n")
    (path.parent / "beside_the_job.py").write_text("NAME = 'found'\n")

    assert main(["run", str(path)]) == 0
    assert capsys.readouterr().out == "found\n"


def test_a_missing_file_is_named(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "missing.py"]) == 2
    assert capsys.readouterr().err == "tidegate: missing.py is not a file; expected the program to run\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [("FencedError", 3), ("ConfigError", 2), ("CommitUnknownError", 4), ("UnavailableError", 1)],
)
def test_an_error_of_ours_is_one_line_and_its_code(
    job: Job, capsys: pytest.CaptureFixture[str], error: str, code: int
) -> None:
    path = job(f"from tidegate.errors import {error}\nraise {error}('what is wrong; what to do')\n")

    assert main(["run", str(path)]) == code
    assert capsys.readouterr().err == "tidegate: what is wrong; what to do\n"


def test_an_error_of_the_program_itself_is_shown_by_python(job: Job) -> None:
    with pytest.raises(ZeroDivisionError):
        main(["run", str(job("1 / 0\n"))])


def test_a_program_may_choose_its_own_exit_code(job: Job) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", str(job("raise SystemExit(7)\n"))])
    assert ended.value.code == 7


def test_ctrl_c_is_the_code_shells_expect(job: Job) -> None:
    assert main(["run", str(job("raise KeyboardInterrupt\n"))]) == 130


SETTINGS = """
import json
import os
from pathlib import Path
from tidegate.options import load
from tidegate.runtime.options import JobOptions, client_layers

options = load(JobOptions, *client_layers({}, Path(".")))
print(options.parallelism, options.fresh or options.ignore_unclaimed, options.savepoint)
"""


@pytest.mark.parametrize(
    ("before", "behind", "expected"),
    [
        (["-D", "parallelism.default=3"], [], "3 False None"),
        ([], ["-D", "parallelism.default=3", "--fresh"], "3 True None"),
        ([], ["--allow-non-restored-state", "-s", "7"], "None True 7"),
        (["--allow-non-restored-state", "-s", "7"], [], "None True 7"),
        (["-s", "17"], ["-Dparallelism.default=4"], "4 False 17"),
        ([], ["--savepoint=run/chk-3"], "None False run/chk-3"),
        ([], ["--savepoint", "3"], "None False 3"),
        (["-D", "parallelism.default=3"], ["-D", "parallelism.default=5"], "5 False None"),
        ([], ["--freshly"], "None False None"),
        (["-p", "3", "-n"], [], "3 True None"),
        ([], ["--parallelism", "3"], "3 False None"),
        ([], ["-p", "3"], "None False None"),
    ],
    ids=[
        "before",
        "behind",
        "left behind",
        "left before",
        "both",
        "equals",
        "two words",
        "the last one wins",
        "not an abbreviation",
        "short ones in front",
        "parallelism behind",
        "short ones behind are the program's",
    ],
)
def test_settings_reach_the_program(
    job: Job, capsys: pytest.CaptureFixture[str], before: list[str], behind: list[str], expected: str
) -> None:
    assert main(["run", *before, str(job(SETTINGS)), *behind]) == 0
    assert capsys.readouterr().out == f"{expected}\n"


def test_the_same_command_again_goes_on_instead_of_beginning_anew(tmp_path: Path) -> None:
    (tmp_path / "set.toml").touch()
    given = [
        "run",
        "--fresh",
        "-s",
        "7",
        "-p",
        "2",
        "--on",
        "inline",
        "-D",
        "execution.fresh = true",
        "-D",
        "a.b=c d",
        "--take-over",
    ]
    behind = [
        "--accept-loss",
        "3",
        "--config",
        str(tmp_path / "set.toml"),
        "--replay-from=2",
        "--",
        "--fresh",
        "x",
    ]
    arguments = _parser().parse_args([*given, "--compat", "pyflink", str(tmp_path / "job.py"), *behind])

    first, later = again(arguments, anew=False), again(arguments, anew=True)

    common = ["run", "--compat", "pyflink", "--config", str(tmp_path / "set.toml")]
    own = [str(tmp_path / "job.py"), "--", "--fresh", "x"]
    settings = ["-D", "a.b=c d", "-D", "parallelism.default=2", "-D", "execution.target=inline"]
    assert later == [sys.executable, "-P", "-m", "tidegate.runtime.cli.main", *common, *settings, *own]
    assert set(first) - set(later) == {
        "execution.fresh = true",
        "execution.fresh=true",
        "execution.savepoint.path=7",
        "execution.accept-loss=3",
        "execution.replay-from=2",
        "execution.take-over=true",
    }


def test_a_program_runs_as_a_batch_job_if_the_command_line_says_so(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job(
        "from tidegate.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "stream = env.from_collection([1, 2, 3]).key_by(lambda n: 0).sum(0)\n"
        "print(list(stream.execute_and_collect()))\n"
    )
    given = ["-D", "execution.target=inline", "-D", "parallelism.default=1", "-D", "pipeline.progress=off"]

    assert main(["run", *given, "-D", "execution.runtime-mode=BATCH", str(path)]) == 0
    assert main(["run", *given, str(path)]) == 0
    assert capsys.readouterr().out == "[6]\n[1, 3, 6]\n"


FAILING = """
import json
from tidegate.datastream import StreamExecutionEnvironment

def fail(number):
    print("tried")
    raise ValueError("no")

env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline", "pipeline.progress": "off"})
env.from_collection([1]).map(fail).print()
print(max(node["parallelism"] for node in json.loads(env.get_execution_plan())["nodes"]))
env.execute("fails")
"""


def test_a_configuration_file_of_flink_decides_how_a_program_runs(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job(FAILING)
    file = path.parent / "flink-conf.yaml"
    file.write_text(
        "restart-strategy: fixed-delay\nrestart-strategy.fixed-delay.attempts: 2\n"
        "restart-strategy.fixed-delay.delay: 1ms\nparallelism.default: 3\n"
        f"state.backend.fs.checkpointdir: {path.parent}/kept\n"
    )

    assert main(["run", "--config", str(file), str(path)]) == 1
    assert capsys.readouterr().out.splitlines() == ["3", "tried", "tried", "tried"]
    assert list((path.parent / "kept").glob("*/latest*"))

    assert main(["run", str(path), "--config", str(file), "-D", "restart-strategy=none"]) == 1
    assert capsys.readouterr().out.splitlines() == ["3", "tried"]


def test_settings_come_from_the_strongest_place_that_says_them(
    job: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = job(SETTINGS.replace("client_layers({}", "client_layers(os.environ"))
    named, found = path.parent / "named.toml", path.parent / "tidegate.toml"

    found.write_text("parallelism.default = 2\n")
    named.write_text("parallelism.default = 3\n")
    told = []
    for arguments, variable in (([], ""), (["--config", str(named)], ""), (["--config", str(named)], "4")):
        if variable:
            monkeypatch.setenv("TIDEGATE_PARALLELISM_DEFAULT", variable)
        assert main(["run", *arguments, str(path)]) == 0
        told.append(capsys.readouterr().out.split()[0])
    assert told == ["2", "3", "4"]
