from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.backends.spi import InlineChunk, KeyedHandle
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.print import PrintSink
from tidegate.errors import ConfigError, StateFormatError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId, Subtask
from tidegate.keys import KeyGroupRange, ranges
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState
from tidegate.runtime.checkpoint.restore import adopt_max_parallelism, redistribute
from tidegate.runtime.graph.job_graph import JobGraph, build_job_graph
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.runtime.graph.transformations import Hash, Input, Transformation
from tidegate.runtime.operators.keyed import PROCESS
from tidegate.runtime.operators.operator_list import Dealt, OperatorList, read, written
from tidegate.runtime.operators.sink import SINK
from tidegate.runtime.operators.stamp import SOURCE

Step = Callable[..., Transformation]
COUNT = OperatorUid("count")


def program(parallelism: int, most: int) -> JobGraph:
    source = Transformation(SOURCE, "source", CollectionSource([1]), uid="source")
    count = Transformation(
        PROCESS, "count", abs, (Input(source, Hash(abs)),), uid="count", max_parallelism=most
    )
    sink = Transformation(SINK, "sink", PrintSink(), (Input(count),), uid="sink")
    return build_job_graph(build_stream_graph([sink], parallelism=parallelism, restored={COUNT: most}))


def manifest(*operators: OperatorState) -> Manifest:
    return Manifest(
        PipelineId("p"), LineageId("l"), Branch(0), RunId("r"), CheckpointId(3), None, 0, operators, ()
    )


def counted(parallelism: int, most: int, **fields: Any) -> OperatorState:
    handles = tuple(
        KeyedHandle(each, None, (InlineChunk(bytes([number])),))
        for number, each in enumerate(ranges(parallelism, most))
        if each.first < each.last
    )
    return OperatorState(COUNT, "count", parallelism, most, keyed=handles, **fields)


@given(before=st.integers(1, 12), after=st.integers(1, 12), most=st.sampled_from([12, 16, 128, 1000]))
def test_every_key_group_has_exactly_one_owner_that_gets_its_state(
    before: int, after: int, most: int
) -> None:
    graph = program(after, most)

    restored = redistribute(graph, manifest(counted(before, most)))

    owned = ranges(after, most)
    owners = [[s for s, mine in enumerate(owned) if mine.first <= group < mine.last] for group in range(most)]
    assert all(len(each) == 1 for each in owners)
    for group, (owner,) in enumerate(owners):
        handles = restored[Subtask("count", owner)][COUNT].keyed
        holding = [h for h in handles if h.key_groups.first <= group < h.key_groups.last]
        assert len(holding) == 1
    for subtask, mine in enumerate(owned):
        for handle in restored[Subtask("count", subtask)][COUNT].keyed:
            assert handle.key_groups.first < mine.last
            assert mine.first < handle.key_groups.last


@given(writers=st.integers(0, 7), parallelism=st.integers(1, 9))
def test_every_writer_state_goes_to_exactly_one_subtask(writers: int, parallelism: int) -> None:
    states = tuple(bytes([number]) for number in range(writers))
    sink = OperatorState(OperatorUid("sink"), "sink", max(1, writers), 128, writers=states)

    restored = redistribute(program(parallelism, 128), manifest(sink))

    dealt = [state for mine in restored.values() for state in mine.get(OperatorUid("sink"), _NONE).writers]
    assert sorted(dealt) == sorted(states)


@pytest.mark.parametrize("threshold", [0, 100], ids=["in files", "in the metadata"])
@pytest.mark.parametrize(
    ("dealt", "before", "after"),
    [
        ("split", (b"a", b"bc"), (b"a", b"bc")),
        ("split", (b"ab",), (b"a", b"b")),
        ("split", (b"ab",), (b"a", b"b", b"")),
        ("split", (b"abc", b"", b"d"), (b"ab", b"cd")),
        ("union", (b"a", b"bc"), (b"abc", b"abc", b"abc")),
        ("broadcast", (b"ab", b"ab"), (b"ab", b"ab", b"ab")),
    ],
    ids=["unchanged", "more", "one gets none", "fewer", "union", "broadcast"],
)
def test_operator_state_is_dealt_as_it_asks_for(
    dealt: Dealt, before: tuple[bytes, ...], after: tuple[bytes, ...], threshold: int
) -> None:
    files = StorageFiles(MemoryStorage().blobs, "run", threshold)
    lists = tuple((written(OperatorList("queue", _items(held), dealt), files),) for held in before)
    state = OperatorState(COUNT, "count", len(before), 128, lists=lists)

    restored = redistribute(program(len(after), 128), manifest(state))

    mine = [restored[Subtask("count", index)][COUNT] for index in range(len(after))]
    assert [read(each.lists[0], files).items for each in mine] == [_items(held) for held in after]
    assert mine[0].items("another") == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [((b"a", b"bc"), (b"a", b"bc")), ((b"a", b"bc"), (b"abc", b"abc", b"abc"))],
    ids=["goes on", "is given to more"],
)
def test_who_is_only_opened_anew_has_of_a_union_what_it_had(
    before: tuple[bytes, ...], after: tuple[bytes, ...]
) -> None:
    lists = tuple((OperatorList("queue", _items(held), "union"),) for held in before)
    state = OperatorState(COUNT, "count", len(before), 128, lists=lists)

    dealt = redistribute(program(len(after), 128), manifest(state), onward=True)

    mine = [dealt[Subtask("count", index)][COUNT].items("queue") for index in range(len(after))]
    assert mine == [_items(held) for held in after]


def test_subtasks_that_disagree_about_a_type_are_refused() -> None:
    lists = tuple(
        (OperatorList("state:rules", (), "split", f"list {of} (msgspec 1)"),) for of in ("long", "double")
    )
    state = OperatorState(COUNT, "count", 2, 128, lists=lists)

    with pytest.raises(
        StateFormatError,
        match=r"operator 'count': subtasks stored 'state:rules' with different types; got list long .*; "
        r"expected list double .*; declare it in every subtask",
    ):
        redistribute(program(2, 128), manifest(state))


def test_a_new_operator_starts_from_nothing() -> None:
    restored = redistribute(program(2, 128), manifest())

    assert restored[Subtask("count", 1)][COUNT] == _NONE


@pytest.mark.parametrize(
    "state",
    [
        {"keyed": (KeyedHandle(KeyGroupRange(0, 128), None, ()),)},
        {"splits": (b"split",)},
        {"writers": (b"writer",)},
        {"lists": ((), (OperatorList("queue", (b"item",)),))},
    ],
    ids=["keyed", "splits", "writers", "lists"],
)
def test_state_of_an_operator_that_is_gone_is_refused_and_named(state: dict[str, Any]) -> None:
    gone = OperatorState(OperatorUid("totals"), "totals", 1, 128, **state)

    with pytest.raises(
        ConfigError,
        match="checkpoint 3 holds state of operator 'totals', which this program does not have; "
        "known are count, sink, source; give an operator this uid, name the operator that gets its state with --map totals=NEW, "
        "drop its state with --allow-non-restored-state, or start without state with --fresh",
    ):
        redistribute(program(1, 128), manifest(gone))


def test_an_operator_that_is_gone_without_state_is_no_matter() -> None:
    gone = OperatorState(OperatorUid("filter-1"), "filter", 1, 128)

    assert redistribute(program(1, 128), manifest(gone))[Subtask("count", 0)][COUNT] == _NONE


def test_only_keyed_state_fixes_the_number_of_key_groups() -> None:
    stateless = OperatorState(OperatorUid("map"), "map", 2, 256)

    assert adopt_max_parallelism(manifest(stateless, counted(2, 512))) == {COUNT: 512}


def _items(held: bytes) -> tuple[bytes, ...]:
    return tuple(bytes([item]) for item in held)


_NONE = redistribute(program(1, 128), manifest())[Subtask("count", 0)][COUNT]
