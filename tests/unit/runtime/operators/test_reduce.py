"""Reductions whose usual records the generated loop combines by itself, against a call for each record."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from tidegate.backends.heap import HeapBackend
from tidegate.backends.keyed import KeyedStore
from tidegate.backends.spi import BackendContext, StoredChunk
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.keys import KeyGroupRange
from tidegate.runtime.operators.codegen import Compiled, Stage, compile_stages
from tidegate.runtime.operators.reduce import REDUCE
from tidegate.runtime.stream.aggregations import Aggregation
from tidegate.types import TypeInformation, Types

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
RECORDS = st.one_of(
    st.tuples(st.sampled_from("ab"), st.integers(-3, 3)),
    st.tuples(st.sampled_from("ab"), st.one_of(st.floats(-1, 1), st.booleans(), st.just("x"), st.none())),
    st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 3)),
    st.sampled_from([("a",), ["a", 2], "ab", b"ab", {0: "a", 1: 5}, ("a", [1]), (["a"], 1), 7]),
)
BATCHES = st.lists(
    st.one_of(st.just("save"), st.lists(st.tuples(st.sampled_from("kl"), RECORDS), min_size=1))
)


def longest(one: tuple[str, int], other: tuple[str, int]) -> tuple[str, int]:
    return max(one, other, key=lambda pair: pair[1])


def fickle(one: Any, other: Any) -> Any:
    """Sometimes nothing, sometimes of another kind, sometimes something that can change."""
    return [None, (one, other), ["a"], ("a", len(str(one))), other, ("a", 1, 2)][len(f"{one}{other}") % 6]


REDUCED: dict[str, tuple[Any, TypeInformation]] = {
    "sum": (Aggregation("sum", 1), PAIR),
    "min": (Aggregation("min", 1), PAIR),
    "max": (Aggregation("max", 1), PAIR),
    "min_by": (Aggregation("min_by", 1), PAIR),
    "sum of texts": (Aggregation("sum", 0), PAIR),
    "function": (longest, PAIR),
    "fickle": (fickle, Types.PICKLED_BYTE_ARRAY()),
    "number": (lambda one, other: one + other, Types.LONG()),
}


class Subject:
    """The operator over a store of its own, with the shortcut or without."""

    def __init__(self, payload: Any, info: TypeInformation, root: Path, *, short: bool) -> None:
        root.mkdir()
        files = StorageFiles(MemoryStorage().blobs, "reduce", inline_threshold=0)
        self.store = KeyedStore(HeapBackend(), KeyGroupRange(0, 4), 4, (), BackendContext(root, files, {}))
        env = SimpleNamespace(batch=False)
        context: Any = SimpleNamespace(env=env, store=None, keyed_store=lambda why: self.store)
        node: Any = SimpleNamespace(payload=payload, output_type=info)
        operator = REDUCE.open(node, context)
        assert operator is not None
        call = operator.calls[0]
        self.shortcut = call.shortcut
        if not short:
            call = dataclasses.replace(call, shortcut=None)
        stage = Stage(OperatorUid("reduce"), 0, call, outputs=(0,))
        self.loop: Compiled = compile_stages("reduce", stage, timed=False)
        self._checkpoint = 0

    def play(self, step: Any) -> Any:
        """What comes of a batch or a checkpoint: results and the stored bytes, or the kind of error."""
        try:
            if step == "save":
                self._checkpoint += 1
                handle = self.store.snapshot(CheckpointId(self._checkpoint), None).finish()
                return [
                    (chunk.size, chunk.checksum) for chunk in handle.chunks if isinstance(chunk, StoredChunk)
                ]
            keys, values = ([pair[at] for pair in step] for at in (0, 1))
            ((results, _),) = self.loop.run(values, None, self.store.prefetch(keys))
            self.store.end_batch()
        except Exception as error:
            return type(error).__name__
        return [(type(result), result) for result in results]


@pytest.mark.parametrize("name", REDUCED)
@given(steps=BATCHES)
@example(steps=[[("k", ("a", 1)), ("k", ("b", 2)), ("k", ("c", 3))], "save", [("k", ("d", 4))]])
@example(steps=[[("k", ("a", 1)), ("k", ("b", 2)), ("k", ("b", 2, 3))]])
@example(steps=[[("k", ("a", 1, 5)), ("k", ("b", 2))], [("k", ("b", 2.5))]])
@example(steps=[[("k", 1), ("k", 2), ("k", 2.5), ("k", True)], "save"])
def test_the_loop_and_a_call_for_each_record_come_to_the_same(name: str, steps: list[Any]) -> None:
    payload, info = REDUCED[name]
    with TemporaryDirectory() as root:
        short, long = (
            Subject(payload, info, Path(root, way), short=way == "short") for way in ("short", "long")
        )
        for step in [*steps, "save"]:
            got, expected = short.play(step), long.play(step)
            assert got == expected
            if isinstance(expected, str):
                break
        for each in (short, long):
            each.store.close()


def test_what_can_change_is_kept_apart_from_what_was_emitted(tmp_path: Path) -> None:
    def joined(one: list[int], other: list[int]) -> list[int]:
        return [*one, *other]

    subject = Subject(joined, Types.LIST(Types.LONG()), tmp_path / "state", short=True)
    first = subject.play([("k", [1]), ("k", [2])])[1][1]
    first.append(99)
    assert subject.play([("k", [3])]) == [(list, [1, 2, 3])]
    subject.store.close()


@pytest.mark.parametrize(("name", "called"), [("sum", False), ("function", True)])
def test_usual_records_pass_without_the_operator_being_called(
    tmp_path: Path, name: str, called: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload, info = REDUCED[name]
    subject = Subject(payload, info, tmp_path / "state", short=True)
    assert subject.shortcut is not None
    assert any("combine(" in line for line in subject.shortcut.lines) == called
    subject.play([("k", ("a", 1))])
    calls: list[Any] = []
    take_in: Callable[[Any], Any] = subject.loop.run.__globals__["f0"]

    def noted(value: Any) -> Any:
        calls.append(value)
        return take_in(value)

    monkeypatch.setitem(subject.loop.run.__globals__, "f0", noted)
    assert subject.play([("k", ("b", 2)), ("k", ("c", 5)), ("new", ("d", 4))])[1:] == [
        (tuple, ("a", 8) if name == "sum" else ("c", 5)),
        (tuple, ("d", 4)),
    ]
    assert calls == [("d", 4)]
    subject.store.close()
