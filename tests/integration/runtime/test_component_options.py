"""Options of a backend that somebody else has written, as a package that is installed: in real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

BACKEND = '''
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tidegate.backends.filesystem import FilesystemBackend
from tidegate.options import Layer, check_ranges, load, option

@dataclass(frozen=True)
class PagedOptions:
    """Options of the backend."""

    page_bytes: int = option("state.backend.paged.page-size", 4096, "what is read at once", least=16)

    def __post_init__(self):
        check_ranges(self)

@dataclass(frozen=True, slots=True)
class PagedBackend(FilesystemBackend):
    """Notes its options."""

    name: ClassVar[str] = "paged"

    def open(self, base, key_groups, context):
        page_bytes = load(PagedOptions, Layer("backend options", context.options)).page_bytes
        Path("opened").write_text(str(page_bytes))
        return FilesystemBackend.open(self, base, key_groups, context)
'''
ENTRY_POINTS = """
[tidegate.backends]
paged = paged_backend:PagedBackend

[tidegate.options]
backend.paged = {options}
"""
JOB = """
from tidegate.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment({settings})
env.from_collection([1, 2, 3]).key_by(abs).reduce(max).print()
env.execute("paged")
"""
KEY = "state.backend.paged.page-size"
FLAGS = ("-D", "parallelism.default=1", "-D", "state.backend.type=paged")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a job in a process for which the package is installed."""
    installed = tmp_path / "installed"

    def start(
        *flags: str,
        settings: str = "{}",
        options: str = "paged_backend:PagedOptions",
        target: str = "inline",
        **environ: str,
    ) -> subprocess.CompletedProcess[str]:
        information = installed / "paged_backend-1.0.dist-info"
        information.mkdir(parents=True, exist_ok=True)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: paged-backend\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(ENTRY_POINTS.format(options=options))
        (installed / "paged_backend.py").write_text(BACKEND)
        (tmp_path / "job.py").write_text(JOB.format(settings=settings))
        command = [sys.executable, "-P", "-m", "tidegate.runtime.cli.main", "run"]
        home = {"PYTHONPATH": str(installed), "XDG_STATE_HOME": str(tmp_path / "home")}
        return subprocess.run(
            [*command, *FLAGS, "-D", f"execution.target={target}", *flags, "job.py"],
            cwd=tmp_path,
            env=os.environ | home | environ,
            capture_output=True,
            text=True,
            timeout=100,
        )

    return start


@pytest.mark.parametrize(
    "origin",
    ["program", "command line", "environment", "tidegate.toml", "toml", "flink-conf.yaml", "nowhere"],
)
def test_an_option_reaches_it_from_everywhere(tmp_path: Path, run: Run, origin: str) -> None:
    (tmp_path / "settings.toml").write_text('[state.backend.paged]\npage-size = "1 kb"\n')
    (tmp_path / "flink-conf.yaml").write_text(f"{KEY}: 1kb\n")
    match origin:
        case "program":
            done = run(settings=f'{{"{KEY}": 1024}}')
        case "command line":
            done = run("-D", f"{KEY}=1 kb")
        case "environment":
            done = run(TIDEGATE_STATE_BACKEND_PAGED_PAGE_SIZE="1 kb")
        case "tidegate.toml":
            (tmp_path / "settings.toml").rename(tmp_path / "tidegate.toml")
            done = run()
        case "toml":
            done = run("--config", "settings.toml")
        case "flink-conf.yaml":
            done = run("--config", "flink-conf.yaml")
        case _:
            done = run()

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "opened").read_text() == ("4096" if origin == "nowhere" else "1024")


@pytest.mark.processes
def test_an_option_reaches_it_in_a_worker_process(tmp_path: Path, run: Run) -> None:
    done = run("-D", f"{KEY}=2 kb", target="embedded")

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "opened").read_text() == "2048"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "state.backend.paged.pagesize=1",
            f"unknown option 'state.backend.paged.pagesize' in command line; did you mean '{KEY}'?",
        ),
        (
            "state.backend.rocksdb.block.blocksiz=1",
            "unknown option 'state.backend.rocksdb.block.blocksiz' in command line; did you mean "
            "'state.backend.rocksdb.block.blocksize'?",
        ),
        (f"{KEY}=3", f"option '{KEY}' is out of range; got 3; expected at least 16"),
        (f"{KEY}=much", f"option '{KEY}' in command line has an invalid value; got 'much'; expected a size"),
    ],
    ids=["unknown", "unknown elsewhere", "range", "type"],
)
def test_a_wrong_option_is_refused_before_anything_starts(
    tmp_path: Path, run: Run, setting: str, message: str
) -> None:
    done = run("-D", setting)

    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "opened").exists()


def test_an_option_of_a_backend_that_is_not_in_use_is_named_with_the_one_that_is(run: Run) -> None:
    done = run("-D", "state.backend.heap.max-state=1 kb", TIDEGATE_CONNECTOR_KAFKA_SINK_POOL="8")

    assert done.returncode == 0, done.stderr
    assert (
        "state.backend.heap.max-state (command line) has no effect: it is an option of backend heap; this job uses backend paged"
        in done.stderr
    )
    assert (
        "connector.kafka.sink.pool (environment) has no effect: it is an option of connector kafka.sink; this job uses connector none"
        in done.stderr
    )


def test_a_declaration_that_cannot_be_loaded_stops_no_job_and_is_named(run: Run) -> None:
    done = run(
        "-D", "state.backend.type=heap", "-D", "state.backend.heap.max-state=1 mb", options="gone:Options"
    )

    assert done.returncode == 0, done.stderr
    assert (
        "tidegate.options entry point 'backend.paged' = 'gone:Options' cannot be used: No module named"
        in done.stderr
    )


def test_a_declaration_must_not_take_a_key_of_another_component(run: Run) -> None:
    done = run("-D", f"{KEY}=1 kb", options="tidegate.backends.heap.options:HeapOptions")

    assert done.returncode == 2
    assert (
        "option 'state.backend.heap.max-state' is declared by backend heap and by backend paged"
        in done.stderr
    )
