"""PyFlink's name for our modules: what can be imported, what is refused and why, and that nothing of it stays."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

import tidegate.common
import tidegate.datastream
import tidegate.datastream.functions
from tidegate.runtime.alias import aliased, reason
from tidegate.runtime.cli.main import main

HELPERS = """
from pyflink.common import Row
from pyflink.datastream.functions import MapFunction


class Twice(MapFunction):
    def map(self, value):
        return Row(value[0], 2 * value[1])
"""

JOB = """
import sys

import pyflink.common as common
from helpers import Twice
from pyflink.common.typeinfo import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class Sum(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx: KeyedProcessFunction.Context):
        self.sum.update((self.sum.value() or 0) + value[1])
        yield common.Row(value[0], self.sum.value())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
records = env.from_collection([("a", 1), ("b", 2), ("a", 3)], type_info=Types.TUPLE([Types.STRING(), Types.LONG()]))
sums = records.map(Twice()).key_by(lambda value: value[0]).process(Sum())
with open(sys.argv[1], "w") as file:
    print(sorted(tuple(row) for row in sums.execute_and_collect())[-2:], file=file)
"""


@pytest.fixture
def pyflink() -> Iterator[None]:
    with aliased():
        yield


@pytest.mark.usefixtures("pyflink")
def test_the_classes_are_ours() -> None:
    package = importlib.import_module("pyflink.datastream")
    functions = importlib.import_module("pyflink.datastream.functions")

    assert package.DataStream is tidegate.datastream.DataStream
    assert functions.MapFunction is tidegate.datastream.functions.MapFunction
    assert package.functions.MapFunction is functions.MapFunction
    assert importlib.import_module("pyflink").datastream is package


@pytest.mark.usefixtures("pyflink")
def test_a_submodule_is_found_by_attribute_before_anybody_imported_it() -> None:
    assert importlib.import_module("pyflink.common").watermark_strategy.WatermarkStrategy is (
        tidegate.common.WatermarkStrategy
    )


@pytest.mark.usefixtures("pyflink")
def test_a_module_travels_as_ours() -> None:
    module = importlib.import_module("pyflink.common")

    assert pickle.loads(cloudpickle.dumps(module)) is tidegate.common


@pytest.mark.usefixtures("pyflink")
def test_a_name_that_will_not_come_is_refused_with_the_reason() -> None:
    with pytest.raises(
        ImportError, match="WatermarksWrapper is not available: it has no Java implementation; use Water"
    ):
        _ = importlib.import_module("pyflink.common").AssignerWithPeriodicWatermarksWrapper
    with pytest.raises(
        ModuleNotFoundError, match=r"pyflink\.common\.serializer is not available: values are encoded"
    ):
        importlib.import_module("pyflink.common.serializer")


@pytest.mark.usefixtures("pyflink")
@pytest.mark.parametrize("name", ["pyflink.ml", "pyflink.datastream.nonsense"])
def test_a_module_that_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"is not available: .*docs/migration\.md"):
        importlib.import_module(name)


def test_nothing_of_the_alias_stays() -> None:
    path, finders = list(sys.path), list(sys.meta_path)
    with aliased():
        importlib.import_module("pyflink.datastream")

    assert (sys.path, sys.meta_path) == (path, finders)
    assert [name for name in sys.modules if name.startswith("pyflink")] == []


def test_the_longest_key_that_stands_in_a_name_gives_the_reason() -> None:
    assert "it has no Java" in reason("pyflink.common.types.RowKind.to_j_row_kind")
    assert "not a name of PyFlink" in reason("pyflink.common.types.RowKind.nonsense")


@pytest.mark.parametrize("target", ["inline", "embedded"])
def test_a_program_written_for_pyflink_runs_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.delitem(sys.modules, "helpers", raising=False)
    (tmp_path / "helpers.py").write_text(HELPERS, encoding="utf-8")
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    result = tmp_path / "result"

    code = main(
        [
            "run",
            "--compat",
            "pyflink",
            f"-Dexecution.target={target}",
            "-Dpipeline.progress=off",
            str(tmp_path / "job.py"),
            str(result),
        ]
    )

    assert code == 0
    assert result.read_text(encoding="utf-8") == "[('a', 8), ('b', 4)]\n"
