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
READS_STREAMS = "not a_topic_is_copied"
"""What begins with `readStream`, which is refused before 4.2."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the oldest PySpark; everything else is as in this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        environments = importlib.import_module("benchmarks.environments")
    oldest = environments.interpreter(environments.Peer("pyspark", f"pyspark=={OLDEST}"))
    place = run(oldest, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    return pythons.with_paths(tmp_path_factory.mktemp("oldest"), place)[0]


def test_it_is_the_oldest_that_is_claimed(python: Path) -> None:
    assert CLAIMED in PYPROJECT["project"]["optional-dependencies"]["spark"]
    asked = "import pyspark, importlib.metadata as m; print(pyspark.__version__, m.version('pyspark'))"
    assert run(python, "-P", "-c", asked).split() == [OLDEST, OLDEST]


@pytest.mark.parametrize(
    ("files", "chosen"), [(PROGRAMS, ""), (STREAMS, READS_STREAMS)], ids=["programs", "structured-streaming"]
)
def test_it_passes_the_tests_of_the_newest(python: Path, files: tuple[str, ...], chosen: str) -> None:
    filters = "\n".join([*PYPROJECT["tool"]["pytest"]["ini_options"]["filterwarnings"], LEFT_OPEN])
    options = ["-q", "-p", "no:cacheprovider", "-o", f"filterwarnings={filters}"]
    tests = [*options, "-k", chosen, *(str(HERE / name) for name in files)]
    said = run(python, "-P", "-m", "pytest", *tests)

    assert " passed" in said


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
