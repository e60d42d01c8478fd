"""The oldest PySpark that the package claims to work with: tests of this folder, run with it in place of the newest."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

from tests.integration.spark import pythons
from tests.integration.spark.pythons import ROOT, run

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.setup, pytest.mark.long]

HERE = Path(__file__).parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CLAIMED, OLDEST = "pyspark>=4.1", "4.1.0"

PROGRAMS = ("test_epochs.py", "test_recovery.py")
STREAMS = ("test_stream_sink.py", "test_stream_examples.py")
LEFT_OPEN = r"ignore:unclosed <socket\.socket fd=\d+, family=1,:ResourceWarning"
"""PySpark 4.1 leaves its sockets of domain Unix to the garbage collector; every other warning still fails a test."""
OLDEST_THAT_READS = "4.2.0"
READS_STREAMS = "not a_topic_is_copied"
"""What begins with `readStream`, which is refused before 4.2."""


def python_with(version: str, home: Path) -> Path:
    """An interpreter with another PySpark; everything else is as in this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        environments = importlib.import_module("benchmarks.environments")
    other = environments.interpreter(environments.Peer("pyspark", f"pyspark=={version}"))
    place = run(other, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    return pythons.with_paths(home, place)[0]


def passes(python: Path, *tests: str) -> None:
    """Let an interpreter run tests of this folder."""
    filters = "\n".join([*PYPROJECT["tool"]["pytest"]["ini_options"]["filterwarnings"], LEFT_OPEN])
    options = ["-q", "-p", "no:cacheprovider", "-o", f"filterwarnings={filters}"]
    assert " passed" in run(python, "-P", "-m", "pytest", *options, *tests)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the oldest PySpark."""
    return python_with(OLDEST, tmp_path_factory.mktemp("oldest"))


def test_it_is_the_oldest_that_is_claimed(python: Path) -> None:
    assert CLAIMED in PYPROJECT["project"]["optional-dependencies"]["spark"]
    asked = "import pyspark, importlib.metadata as m; print(pyspark.__version__, m.version('pyspark'))"
    assert run(python, "-P", "-c", asked).split() == [OLDEST, OLDEST]


@pytest.mark.parametrize(
    ("files", "chosen"), [(PROGRAMS, ""), (STREAMS, READS_STREAMS)], ids=["programs", "structured-streaming"]
)
def test_it_passes_the_tests_of_the_newest(python: Path, files: tuple[str, ...], chosen: str) -> None:
    passes(python, "-k", chosen, *(str(HERE / name) for name in files))


def test_the_oldest_that_reads_streams_runs_the_examples(tmp_path: Path) -> None:
    passes(python_with(OLDEST_THAT_READS, tmp_path / "other"), str(HERE / "test_stream_examples.py"))


def test_a_stream_is_refused_by_name_as_it_could_not_be_limited(python: Path) -> None:
    refused = """
from pyspark.sql.types import StructType
from tidegate.runtime.spark.datasource import TidegateDataSource
try:
    TidegateDataSource({"connector": "generator"}).streamReader(StructType())
except ValueError as error:
    print(error)
"""
    assert run(python, "-P", "-c", refused).startswith(
        f"a stream with limits needs PySpark 4.2 or newer; got {OLDEST}; sinks and tables work"
    )
