"""Kinds of state beyond the usual five: the deprecated one, those nobody knows, and backends of somebody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.legacy import FoldingStateDescriptor
from tidegate.datastream.state import StateDescriptor
from tidegate.errors import ConfigError
from tidegate.testing.harness import Harness
from tidegate.types import Types


def text(before: str, value: int) -> str:
    return f"{before}-{value}"


class Fold(KeyedProcessFunction):
    """Folds the values of a key into a text."""

    def open(self, runtime_context: Any) -> None:
        with pytest.warns(DeprecationWarning, match="use AggregatingStateDescriptor"):
            described = FoldingStateDescriptor("texts", "start", text, Types.STRING())
        self.texts = runtime_context.get_aggregating_state(described)

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        if value[1] == 0:
            self.texts.clear()
        else:
            self.texts.add(value[1])
        yield value[0], self.texts.get()


def test_folding_state_takes_in_values_from_an_initial_one_on(anywhere: StreamExecutionEnvironment) -> None:
    given = [("a", 1), ("b", 7), ("a", 2), ("a", 0), ("a", 3)]
    folded = anywhere.from_collection(given).set_parallelism(1).key_by(lambda pair: pair[0]).process(Fold())
    assert sorted(folded.execute_and_collect(), key=str) == [
        ("a", "start-1"),
        ("a", "start-1-2"),
        ("a", "start-3"),
        ("a", None),
        ("b", "start-7"),
    ]


@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
def test_folding_state_is_restored(backend: str) -> None:
    build = lambda stream: stream.key_by(lambda pair: pair[0]).process(Fold())  # noqa: E731
    with Harness(build, backend=backend) as before:
        before.push(("a", 1))
        taken = before.snapshot()
    with Harness(build, backend=backend, restored=taken, parallelism=2) as after:
        after.push(("a", 2))
        assert after.take() == [("a", "start-1-2")]


def test_an_initial_value_is_not_shared_by_keys() -> None:
    with pytest.warns(DeprecationWarning, match="FoldingStateDescriptor"):
        described = FoldingStateDescriptor("seen", [], lambda seen, value: [*seen, value])
    function = described.get_agg_function()
    function.create_accumulator().append(1)
    assert function.create_accumulator() == []


def test_a_fold_needs_a_function() -> None:
    with (
        pytest.warns(DeprecationWarning, match="FoldingStateDescriptor"),
        pytest.raises(
            ConfigError, match="state 'x' needs a function of the accumulator and a value; got int"
        ),
    ):
        FoldingStateDescriptor("x", 0, 7)  # type: ignore[arg-type] # that is the point


class Unheard(StateDescriptor):
    """Describes nothing that there is."""

    kind = "unheard"
    stored_type = None


@pytest.mark.parametrize("described", [Unheard("x"), "x"], ids=["a descriptor", "a name"])
def test_a_state_nobody_knows_is_refused(described: Any) -> None:
    with (
        Harness(lambda stream: stream.key_by(str).process(Fold())) as harness,
        pytest.raises(
            ConfigError,
            match=r"\w+ is not a state descriptor; got .*x.*; expected a Value-, List-, Map-, OrderedMap-, Reducing- or Aggregating",
        ),
    ):
        harness.state("a", described)


BACKEND = """
from tidegate.backends.filesystem import FilesystemBackend


class Mine(FilesystemBackend):
    name = "mine-of-a-test"
"""


def test_a_backend_of_somebody_else_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_of_a_test.py").write_text(BACKEND)
    about = tmp_path / "mine_of_a_test-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine-of-a-test\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[tidegate.backends]\nmine-of-a-test = mine_of_a_test:Mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    build = lambda stream: stream.key_by(lambda pair: pair[0]).process(Fold())  # noqa: E731

    with Harness(build, backend="mine-of-a-test") as before:
        before.push(("a", 1))
        taken = before.snapshot()
    with Harness(build, backend="mine-of-a-test", restored=taken) as after:
        after.push(("a", 2))
        assert after.take() == [("a", "start-1-2")]
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "state.backend.type": "mine-of-a-test"}
    )
    folded = env.from_collection([("a", 1)]).key_by(lambda pair: pair[0]).process(Fold())
    assert list(folded.execute_and_collect()) == [("a", "start-1")]
